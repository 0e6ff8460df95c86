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

// accept turns a request for /ws into a connection. The connection runs in a goroutine of its
// own, so that the request and the buffers of net/http are freed.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) {
	if !s.originAllowed(r) {
		s.refuseOrigin(w, r)
		return
	}
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
	if refusal := s.conns.add(c); refusal != nil {
		if refusal != errDraining {
			s.troubles.full.Happened(refusal)
		}
		refuse(w, http.StatusServiceUnavailable, refusal)
		return
	}
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		s.conns.remove(c)
		s.opts.Log.Debug("connection refused", "remote", r.RemoteAddr, "error", err)
		return // Upgrade has answered
	}
	s.opts.Log.Debug("connected", "remote", r.RemoteAddr, "user", user, "session", c.session.id)
	go func() { // connections waits for it
		defer s.conns.remove(c)
		reason := c.serve(ws)
		s.opts.Log.Debug("disconnected", "user", user, "session", c.session.id, "reason", reason)
	}()
}

// userOf believes what ?user= says. That is safe only on a server that nobody else can reach;
// whoever starts one has to make sure of it.
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

// originAllowed keeps pages of other sites from acting for whoever views them. Programs that
// are not browsers send no Origin.
func (s *Server) originAllowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(s.opts.AllowOrigins, "*") {
		return true
	}
	if slices.ContainsFunc(s.opts.AllowOrigins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// maxOrigin is how many bytes of an origin are shown.
const maxOrigin = 200

// refuseOrigin says how to allow the origin, to its page and to the operator.
func (s *Server) refuseOrigin(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	if len(origin) > maxOrigin {
		origin = origin[:maxOrigin] + "…"
	}
	e := protocol.NewError(protocol.CodeForbidden, "pages of the origin %q may not connect; --allow-origin allows it", origin)
	s.troubles.origins.Happened(e)
	refuse(w, http.StatusForbidden, e)
}
