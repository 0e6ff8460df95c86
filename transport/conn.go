package transport

import (
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"

	"github.com/gorilla/websocket"

	"roomd/transport/internal/outbox"
	"roomd/transport/internal/pending"
	"roomd/transport/internal/ws"
)

// conn is one WebSocket of a server. Its session is what the user does with it.
type conn struct {
	*ws.Conn
	server  *Server
	session *session
	network netip.Prefix  // of the client's address; the zero Prefix if that is not known
	removed chan struct{} // closed when the server has removed it from its connections

	unauthenticated *pending.Entry[*conn] // guarded by connections.mu: of those that have shown no token; nil for others
	evicted         bool                  // guarded by connections.mu: aborted to make room
}

func newConn(s *Server, user string, access *access, address netip.Addr) *conn {
	limits := s.limits.Load()
	c := &conn{server: s, network: pending.Network(address), removed: make(chan struct{})}
	out := outbox.New(func() { c.StartWriting() }, limits.maxQueue)
	c.session = newSession(s, user, access, out, func(code int, text string) { c.End(code, text) })
	c.Conn = s.sockets.New(c.session, out, limits.maxFrame)
	c.session.isOver, c.session.maxFrame = c.IsOver, limits.maxFrame
	c.session.onUser = func() {
		s.conns.name(c)
		c.session.enter()
	}
	return c
}

// serve runs the connection until it ends, and returns why it ended.
func (c *conn) serve(raw net.Conn) error {
	c.Open(raw)
	c.server.health.add(c)
	defer c.server.health.remove(c)
	if c.session.user != "" {
		c.session.enter()
	}
	defer c.session.exit()
	if access := c.session.access; access != nil {
		access.start(c.server.limits.Load().authTimeout)
		defer access.stop()
	}
	reason := c.read()
	rooms := c.session.close()
	if websocket.IsCloseError(reason, websocket.CloseNormalClosure) { // on purpose
		c.server.disconnectTimers.skip(c.session.user, c.session.id, rooms)
	} else {
		c.server.disconnectTimers.begin(c.session.user, c.session.id, rooms)
	}
	c.Close()
	return reason
}

// read is Read. A panic ends this connection, not the node.
func (c *conn) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			c.End(0, "")
			c.session.out.Cut(nil) // the reply, too: the close frame of a restart would say that the request was not begun
			c.server.rateLimitedLogs.panics.Happened(err, "user", c.session.user, "stack", string(debug.Stack()))
		}
	}()
	return c.Read()
}
