package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/internal/pending"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

// accept refuses a request for /ws, or gives its connection a goroutine of its own, so that net/http frees its
// buffers.
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
			"this server speaks %s, which Sec-WebSocket-Protocol does not offer", // the offer may be a token
			protocol.Subprotocol))
		return
	}
	if wait := s.sessions.Users.Penalty(user); wait > 0 {
		s.opts.Trace.Refused(LimitFlood)
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		Refuse(w, http.StatusTooManyRequests, protocol.NewError(protocol.CodeRateLimited,
			"%s has sent too much that asks for nothing; wait %v", user, wait))
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
		s.sessions.Debug.Write("connection refused", slog.String("remote", remote), slog.Any("error", err))
		return // Upgrade has answered
	}
	s.opts.Trace.Connected()
	s.sessions.Debug.Write("connected",
		slog.String("remote", remote), slog.String("user", user), slog.String("session", c.session.ID))
	go func() { // connections.wait waits for this goroutine
		defer s.conns.remove(c)
		reason := c.serve(socket.NetConn())
		s.sessions.Debug.Write("disconnected", slog.String("user", c.session.User),
			slog.String("session", c.session.ID), slog.Any("reason", reason))
	}()
}

// joinProtocols joins several lines of offered subprotocols (RFC 6455, section 11.3.4): gorilla reads only the first.
func joinProtocols(h http.Header) {
	if lines := h["Sec-Websocket-Protocol"]; len(lines) > 1 {
		h["Sec-Websocket-Protocol"] = []string{strings.Join(lines, ", ")}
	}
}

// reserve registers a connection, or returns the status and error of its refusal. It may abort another to make room.
func (s *Server) reserve(c *conn) (status int, refusal *protocol.Error) {
	evicted, refusal := s.conns.add(c)
	if evicted != nil {
		s.opts.Trace.Refused(LimitUnauthenticated)
		s.rateLimitedLogs.evicted.Happened(nil)
		evicted.Abort()
	}
	switch {
	case refusal == nil, refusal == errDraining:
	case refusal.Is(protocol.ErrRateLimited):
		s.opts.Trace.Refused(LimitAddress)
		s.rateLimitedLogs.address.Happened(refusal, "address", c.network.String())
		return http.StatusTooManyRequests, refusal
	default:
		s.opts.Trace.Refused(LimitConnections)
		s.rateLimitedLogs.full.Happened(refusal)
	}
	return http.StatusServiceUnavailable, refusal
}

// identify returns the client's user, "" before its first token, and its access, nil without Options.Auth. It fails
// with a *protocol.Error.
func (s *Server) identify(r *http.Request) (user string, a *session.Access, err error) {
	named, err := userOf(r, s.opts.Auth == nil)
	if err != nil {
		return "", nil, protocol.NewError(protocol.CodeBadRequest, "%v", err)
	}
	if s.opts.Auth == nil {
		return named, nil, nil
	}
	a = session.NewAccess(s.opts.Auth, named)
	switch tokens := tokensOf(r); len(tokens) {
	case 0:
		if r.Header.Get("Origin") == "" { // a program can forge an Origin, a page cannot leave it out
			return "", nil, protocol.NewError(protocol.CodeUnauthorized, "a client without an Origin, which is no "+
				"browser, must send its token with the handshake: as Authorization: Bearer, or as a subprotocol")
		}
		return "", a, nil
	case 1:
		user, err = a.Show(tokens[0])
		return user, a, err
	}
	return "", nil, protocol.NewError(protocol.CodeUnauthorized, "the request has more than one token")
}

// userOf returns the user that ?user= names, or "" if that is left out and not required. It is required without
// Options.Auth: then nothing else identifies a client, and only trusted ones may reach the server.
func userOf(r *http.Request, required bool) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", fmt.Errorf("the query cannot be read: %w", err)
	}
	switch names := query["user"]; {
	case len(names) == 0 && !required:
		return "", nil
	case len(names) != 1:
		return "", errors.New("user must be given once, as in /ws?user=NAME")
	default:
		return room.ParseUser(names[0])
	}
}

func tokensOf(r *http.Request) (tokens []string) {
	tokens = auth.Bearers(r.Header)
	for _, offered := range websocket.Subprotocols(r) {
		if token, is := strings.CutPrefix(offered, protocol.TokenSubprotocol); is {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

func (s *Server) refuseIdentity(w http.ResponseWriter, err error) {
	e := ErrorOf(err)
	if e.Code != protocol.CodeUnauthorized {
		Refuse(w, http.StatusBadRequest, e)
		return
	}
	s.rateLimitedLogs.Refused[e.Code].Happened(e)
	w.Header().Set("WWW-Authenticate", "Bearer")
	Refuse(w, http.StatusUnauthorized, e)
}

const forwardedFor = "X-Forwarded-For"

// clientAddress returns the address of a client, the zero Addr if there is none, as with a Unix socket. Behind a
// trusted proxy it is the right-most address of X-Forwarded-For that is not a trusted proxy's: the client may have
// made up those to the left of it. An entry that is no address ends the search. Only a trusted peer's header counts.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	address, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	lines := r.Header[forwardedFor]
	for _, line := range slices.Backward(lines) {
		for entry := range entriesBackward(line) {
			if !isTrusted(address, trusted) {
				return address
			}
			next, ok := parseAddress(entry)
			if !ok {
				return address
			}
			address = next
		}
	}
	return address
}

// entriesBackward yields the entries of a list from the last to the first, without empty ones (RFC 9110, 5.6.1).
func entriesBackward(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for list != "" {
			comma := strings.LastIndexByte(list, ',')
			entry := strings.Trim(list[comma+1:], " \t")
			list = list[:max(comma, 0)]
			if entry != "" && !yield(entry) {
				return
			}
		}
	}
}

// parseAddress reads an address, perhaps with brackets and a port. IPv4 in IPv6 becomes IPv4; a zone is dropped.
func parseAddress(text string) (netip.Addr, bool) {
	bare := text
	if inside, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inside, "]") {
		bare = strings.TrimSuffix(inside, "]")
	}
	address, err := netip.ParseAddr(bare)
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		address = withPort.Addr()
	}
	return address.Unmap().WithZone(""), true
}

func isTrusted(address netip.Addr, trusted []netip.Prefix) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(address) })
}

// NetworkOf returns the network that counts as the client's address; zero if the client has no address.
func (s *Server) NetworkOf(r *http.Request) netip.Prefix {
	return pending.Network(clientAddress(r, s.opts.TrustProxy))
}

// remoteOf returns a client's address for logs.
func remoteOf(r *http.Request, address netip.Addr) string {
	if direct, ok := parseAddress(r.RemoteAddr); !ok || direct == address {
		return r.RemoteAddr
	}
	return address.String()
}
