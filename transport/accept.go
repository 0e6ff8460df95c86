package transport

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/websocket"

	"roomd/room"
	"roomd/transport/protocol"
)

var errDraining = protocol.NewError(protocol.CodeUnavailable, "this node is shutting down, connect to another")

// accept turns a request for /ws into a connection. That has a goroutine of its own,
// so that nothing is kept of the request and of what net/http reads one with.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) {
	user, err := userOf(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, protocol.NewError(protocol.CodeBadRequest, "%v", err))
		return
	}
	if offered := websocket.Subprotocols(r); len(offered) > 0 && !slices.Contains(offered, protocol.Subprotocol) {
		refuse(w, http.StatusBadRequest, protocol.NewError(protocol.CodeBadRequest,
			"this server speaks %s, Sec-WebSocket-Protocol offers %q", protocol.Subprotocol, offered))
		return
	}
	c := newConn(s, user)
	if refusal := s.admit(c); refusal != nil {
		refuse(w, http.StatusServiceUnavailable, refusal)
		return
	}
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		s.dismiss(c)
		s.opts.Log.Debug("connection refused", "remote", r.RemoteAddr, "error", err)
		return // Upgrade has answered
	}
	s.opts.Log.Debug("connected", "remote", r.RemoteAddr, "user", user, "session", c.session)
	go func() { // dismiss says that it has ended
		defer s.dismiss(c)
		reason := c.run(ws)
		s.opts.Log.Debug("disconnected", "user", user, "session", c.session, "reason", reason)
	}()
}

// userOf believes what ?user= says. That is for a server that nobody else can
// reach; who starts one has to see to it.
func userOf(r *http.Request) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", fmt.Errorf("the query cannot be read: %w", err)
	}
	if len(query["user"]) != 1 {
		return "", fmt.Errorf("user must be given once, as in /ws?user=NAME")
	}
	return room.ParseUser(query["user"][0])
}

// checkOrigin keeps the pages of other sites from acting for whoever views them.
// Programs that are no browser send no Origin.
func (s *Server) checkOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(s.opts.AllowOrigins, "*") {
		return true
	}
	if slices.ContainsFunc(s.opts.AllowOrigins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

// only has requests with other methods refused.
func only(handle http.HandlerFunc, methods ...string) http.HandlerFunc {
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(methods, r.Method) {
			handle(w, r)
			return
		}
		w.Header().Set("Allow", allow)
		refuse(w, http.StatusMethodNotAllowed, protocol.NewError(protocol.CodeBadRequest, "%s is asked for by %s, not %s", r.URL.Path, allow, r.Method))
	}
}

// refuse answers a request that does not become a connection.
func refuse(w http.ResponseWriter, status int, e *protocol.Error) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(protocol.AppendReply(nil, &protocol.Reply{Error: e}), '\n'))
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text + "\n"))
}
