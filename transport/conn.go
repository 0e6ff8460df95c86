package transport

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/internal/frames"
	"roomd/transport/internal/outbox"
	"roomd/transport/internal/pending"
)

const (
	// lingerTimeout is how long a closed connection is still read, so that the last frames
	// arrive before the kernel resets it.
	lingerTimeout = time.Second

	// maxLinger is how many bytes of that are read: what the kernel has taken so far, and not what
	// a client goes on sending.
	maxLinger = 256 << 10

	// closeTimeout bounds each of the last writes to a client that the server closes: the
	// one that runs, and what is queued behind it.
	closeTimeout = 5 * time.Second
)

// conn is one WebSocket: its deadlines and its end. Its session is what the user does with it.
type conn struct {
	server  *Server
	session *session
	out     *outbox.Outbox
	writer  *writer
	frames  *frameReader  // set with raw
	network netip.Prefix  // of the client's address; the zero Prefix if that is not known
	removed chan struct{} // closed when the server has removed it from its connections

	unauthenticated *pending.Entry[*conn] // guarded by connections.mu: of those that have shown no token; nil for others
	evicted         bool                  // guarded by connections.mu: aborted to make room

	alive liveness

	mu      sync.Mutex
	raw     net.Conn // guarded by mu: nil before the handshake; then constant
	closing bool     // guarded by mu: no further request is read
	aborted bool     // guarded by mu
	code    int      // guarded by mu: of the close frame, 0 for none
	text    string   // guarded by mu: of the close frame
}

func newConn(s *Server, user string, access *access, address netip.Addr) *conn {
	c := &conn{server: s, network: pending.Network(address), removed: make(chan struct{})}
	c.writer = &writer{conn: c}
	c.out = outbox.New(c.writer.start, s.limits.Load().maxQueue)
	c.session = newSession(s, user, access, c.out, func(code int, text string) { c.end(code, text) })
	c.session.isOver = c.isOver
	c.session.onUser = func() {
		s.conns.name(c)
		c.session.enter()
	}
	return c
}

// serve runs the connection until it ends, and returns why it ended.
func (c *conn) serve(ws *websocket.Conn) error {
	c.open(ws.NetConn())
	if c.session.user != "" {
		c.session.enter()
	}
	defer c.session.exit()
	if access := c.session.access; access != nil {
		access.start(c.server.limits.Load().authTimeout)
		defer access.stop()
	}
	reason := c.read()
	switch code, text, closing := c.closeReason(); {
	case !closing:
		c.end(0, "")
		c.out.Discard() // the client is gone
	case text != "": // end woke the reader, whose error says no more than that
		reason = fmt.Errorf("closed by the server (%d): %s", code, text)
	}

	rooms := c.session.close()
	if code, text, _ := c.closeReason(); code == websocket.CloseNormalClosure && text == "" {
		c.server.disconnectTimers.skip(c.session.user, c.session.id, rooms) // the client has closed on purpose
	} else {
		c.server.disconnectTimers.begin(c.session.user, c.session.id, rooms)
	}
	c.flushLast()
	c.hangUp()
	return reason
}

func (c *conn) open(raw net.Conn) {
	c.mu.Lock()
	c.raw, c.frames = raw, newFrameReader(raw, c.server.limits.Load().maxFrame, c.control, c.session.throttle.noopFrame)
	if c.aborted { // before the handshake had ended
		_ = socketOf(raw).Close()
	}
	c.mu.Unlock()
	c.hear()
	c.server.heartbeats.add(c)
	c.server.health.add(c)
}

// isOver reports whether the client has closed the connection behind the frames that are still to be read, as far as
// that has arrived. The goroutine that reads may ask.
func (c *conn) isOver() bool {
	below := c.frames.socket.raw
	if below == nil {
		below = rawOf(socketOf(c.raw))
	}
	return c.frames.socket.isOver(below)
}

// isOpen reports whether the handshake has ended.
func (c *conn) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw != nil
}

// end closes the connection once the request that runs has ended and what is queued is
// written. Only the first call counts, and returns true; a code of 0 sends no close frame. The
// text is empty if the client closed. It does not block.
func (c *conn) end(code int, text string) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.closing, c.code, c.text = true, code, text
	if code != 0 && text != "" {
		c.server.opts.Trace.closed(code)
	}
	c.out.Finish(nil)
	if c.raw != nil {
		c.limitLastWrite()
		_ = c.raw.SetReadDeadline(time.Now()) // wakes the reader
	}
	return true
}

// abort closes the socket at once. Under TLS it says no goodbye, for which a client that reads
// nothing could make it wait.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing, c.aborted = true, true
	if c.raw != nil {
		_ = socketOf(c.raw).Close()
	}
}

// socketOf returns what is below a connection, if that is TLS.
func socketOf(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}

// closeReason returns the code and text that end was called with.
func (c *conn) closeReason() (code int, text string, closing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code, c.text, c.closing
}

// flushLast writes what is queued, and the close frame. Nothing is queued after it.
func (c *conn) flushLast() {
	var last []byte
	if code, text, _ := c.closeReason(); code != 0 {
		last = frames.Control(websocket.CloseMessage, websocket.FormatCloseMessage(code, text))
	}
	c.out.Finish(last)
	c.server.heartbeats.remove()
	c.server.health.remove()
	c.writer.wait()
	c.limitLastWrite()
	for !c.out.IsEmpty() {
		c.writer.take()
		if c.writer.writeTaken() != nil {
			break
		}
	}
}

// limitLastWrite gives the client closeTimeout to read what is being written.
func (c *conn) limitLastWrite() {
	_ = c.raw.SetWriteDeadline(time.Now().Add(min(closeTimeout, c.server.opts.WriteTimeout)))
}

// extendWriteDeadline sets a deadline, unless end has set one.
func (c *conn) extendWriteDeadline(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		_ = c.raw.SetWriteDeadline(to)
	}
}

// hangUp closes the socket. Before that it reads what the client may still be sending: a
// kernel that closes a socket with unread data resets it, and the last frames would be lost.
func (c *conn) hangUp() {
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = c.raw.SetReadDeadline(time.Now().Add(lingerTimeout))
		_, _ = io.Copy(io.Discard, io.LimitReader(c.raw, maxLinger))
	}
	_ = c.raw.Close()
}
