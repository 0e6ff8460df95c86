package transport

import (
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// accept turns a request for /ws into a connection. The connection runs in a goroutine of its
// own, so that the request and the buffers of net/http are freed.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) {
	joinProtocols(r.Header)
	if !s.AllowsOrigin(r) {
		s.refuseOrigin(w, r)
		return
	}
	user, access, err := s.identify(r)
	if err != nil {
		s.refuseIdentity(w, err)
		return
	}
	if offered := websocket.Subprotocols(r); len(offered) > 0 && !slices.Contains(offered, protocol.Subprotocol) {
		Refuse(w, http.StatusBadRequest, protocol.NewError(protocol.CodeBadRequest,
			"this server speaks %s, which Sec-WebSocket-Protocol does not offer", protocol.Subprotocol)) // what it offers may be a token
		return
	}
	if wait := s.users.penalty(user); wait > 0 {
		s.opts.Trace.refused(LimitFlood)
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		Refuse(w, http.StatusTooManyRequests, protocol.NewError(protocol.CodeRateLimited,
			"%s has sent too much that asks for nothing; wait %v", user, roundUp(wait)))
		return
	}
	address := clientAddress(r, s.opts.TrustProxy)
	remote := remoteOf(r, address)
	c := newConn(s, user, access, address)
	if status, refusal := s.reserve(c); refusal != nil {
		Refuse(w, status, refusal)
		return
	}
	socket, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		s.conns.remove(c)
		s.debug.write("connection refused", slog.String("remote", remote), slog.Any("error", err))
		return // Upgrade has answered
	}
	s.opts.Trace.connected()
	s.debug.write("connected", slog.String("remote", remote), slog.String("user", user), slog.String("session", c.session.id))
	go func() { // connections waits for it
		defer s.conns.remove(c)
		reason := c.serve(socket.NetConn())
		s.debug.write("disconnected", slog.String("user", c.session.user), slog.String("session", c.session.id), slog.Any("reason", reason))
	}()
}

// joinProtocols makes one line of several that offer subprotocols (RFC 6455, section 11.3.4):
// gorilla reads the first.
func joinProtocols(h http.Header) {
	if lines := h["Sec-Websocket-Protocol"]; len(lines) > 1 {
		h["Sec-Websocket-Protocol"] = []string{strings.Join(lines, ", ")}
	}
}

// reserve gives a connection its place, or returns why there is none, with the HTTP status.
func (s *Server) reserve(c *conn) (status int, refusal *protocol.Error) {
	evicted, refusal := s.conns.add(c)
	if evicted != nil {
		s.opts.Trace.refused(LimitUnauthenticated)
		s.rateLimitedLogs.evicted.Happened(nil)
		evicted.Abort()
	}
	switch {
	case refusal == nil, refusal == errDraining:
	case refusal.Is(protocol.ErrRateLimited):
		s.opts.Trace.refused(LimitAddress)
		s.rateLimitedLogs.address.Happened(refusal, "address", c.network.String())
		return http.StatusTooManyRequests, refusal
	default:
		s.opts.Trace.refused(LimitConnections)
		s.rateLimitedLogs.full.Happened(refusal)
	}
	return http.StatusServiceUnavailable, refusal
}
