// Package ws is the server's side of WebSockets (RFC 6455): it reads clients' frames, writes queued frames, and ends
// connections that do not answer. It handles bytes; a [Handler] gives them meaning.
package ws

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

// LingerTimeout is how long a closed connection is read, so that the last frames arrive before the kernel resets it.
const LingerTimeout = time.Second

// CloseTimeout bounds each of the last writes before the server closes a connection: the running one, and the queue.
const CloseTimeout = 5 * time.Second

// maxLinger bounds the bytes read from a closed connection: the client may go on sending. The kernel may hold as many.
const maxLinger = 256 << 10

// Handler handles the frames of a connection, and has the frames to write.
type Handler interface {
	// Handle runs the request in a message, and queues the reply. Messages come one after the other.
	Handle(message []byte)

	// Noop counts a frame without a request. It returns a *CloseError if there were too many.
	Noop() error

	// Broken is called before the connection ends because the client broke a rule. A message may have max bytes.
	Broken(err *CloseError, max int)

	// Take appends about size bytes of queued frames to batch, for the current writer. They are valid until Written.
	Take(batch [][]byte, size int) [][]byte
}

// Queue holds frames to be written.
type Queue interface {
	OnDemand(start func()) // sets the function that starts a writer

	Push(frame []byte)      // queues a frame; the caller flushes
	Ping(frame []byte) bool // queues a frame, and starts a writer
	WaitForSpace()          // waits while too much is queued

	Claim() bool       // makes the caller the writer; false if there is one, or nothing to write
	Written()          // records that the frames of Take are written
	KeepWriting() bool // reports whether the writer has to go on
	IsWriting() bool   // reports whether a writer runs

	Finish(last []byte) // queues a last frame, or none if nil; no writer starts any more
	Cut(rest []byte)    // like Finish, but drops the queue; only rest, the end of a frame, is written; nil for none
}

// Options of a group of connections.
type Options struct {
	PingInterval time.Duration        // silence after which a client is pinged
	WriteTimeout time.Duration        // how long a client may read nothing of a write; up to an eighth longer
	TooSlow      int                  // the close code after WriteTimeout
	Closed       func(code int)       // called with the close code when the server closes a connection
	Clock        func() time.Duration // a clock that never steps
}

// Group is the connections of a server. They share the goroutines that write, and one for heartbeats.
type Group struct {
	Options
	heartbeats heartbeats
	flusher    flusher
}

// NewGroup returns a group without connections.
func NewGroup(opts Options) *Group {
	return &Group{Options: opts, heartbeats: heartbeats{
		step: max(opts.PingInterval/heartbeatSteps, time.Millisecond), clock: opts.Clock,
	}}
}

// Wait returns when the shared goroutines have ended, after the last connection.
func (g *Group) Wait() {
	g.heartbeats.running.Wait()
	g.flusher.running.Wait()
}

// Conn is one WebSocket, its deadlines and its end.
type Conn struct {
	group   *Group
	handler Handler
	out     Queue
	writer  writer
	frames  *frameReader // set with raw
	max     int          // bytes of a message
	alive   liveness

	mu      sync.Mutex
	raw     net.Conn // guarded by mu: nil before the handshake; then constant
	closing bool     // guarded by mu: no further request is read
	aborted bool     // guarded by mu
	code    int      // guarded by mu: of the close frame, 0 for none
	text    string   // guarded by mu: of the close frame
}

// New returns a connection before its handshake, with a limit of max bytes per message.
func (g *Group) New(handler Handler, out Queue, max int) *Conn {
	c := &Conn{group: g, handler: handler, out: out, max: max}
	c.writer.conn = c
	out.OnDemand(c.startWriting)
	return c
}

// Open starts a connection after its handshake. Then call Read, and Close.
func (c *Conn) Open(raw net.Conn) {
	c.mu.Lock()
	c.raw, c.frames = raw, newFrameReader(raw, c.max, c.control, c.handler.Noop)
	if c.aborted { // before the handshake ended
		_ = socketOf(raw).Close()
	}
	c.mu.Unlock()
	c.hear()
	c.group.heartbeats.add(c)
}

// IsOver reports whether the client's close has arrived behind unread frames. Only the goroutine of Read may call it.
func (c *Conn) IsOver() bool {
	if c.frames == nil {
		return false
	}
	below := c.frames.socket.raw
	if below == nil {
		below = rawOf(socketOf(c.raw))
	}
	return c.frames.socket.isOver(below)
}

// End closes the connection once the running request has ended and the queue is written. Only the first call counts,
// and returns true; a code of 0 sends no close frame, an empty text means that the client closed. It does not block.
func (c *Conn) End(code int, text string) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.closing, c.code, c.text = true, code, text
	if code != 0 && text != "" {
		c.group.Closed(code)
	}
	c.out.Finish(nil)
	if c.raw != nil {
		c.limitLastWrite()
		_ = c.raw.SetReadDeadline(time.Now()) // wakes the reader
	}
	return true
}

// Abort closes the socket at once. It skips TLS' close_notify, which a client that reads nothing could delay.
func (c *Conn) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing, c.aborted = true, true
	if c.raw != nil {
		_ = socketOf(c.raw).Close()
	}
}

// socketOf returns the connection below TLS, or conn itself.
func socketOf(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}

func (c *Conn) closeReason() (code int, text string, closing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code, c.text, c.closing
}

// ended ends the connection unless End did already, and returns why it ended.
func (c *Conn) ended(reason error) error {
	code, text, closing := c.closeReason()
	if !closing {
		c.End(0, "")
		c.out.Cut(nil) // the client is gone
	} else if text != "" { // the reader's error says only that End woke it
		return fmt.Errorf("closed by the server (%d): %s", code, text)
	}
	return reason
}

// Close writes the queue and the close frame, and closes the socket. Queue nothing after it.
func (c *Conn) Close() {
	var last []byte
	if code, text, _ := c.closeReason(); code != 0 {
		last = Control(websocket.CloseMessage, websocket.FormatCloseMessage(code, text))
	}
	c.out.Finish(last)
	c.group.heartbeats.remove()
	c.writer.running.Wait()
	c.limitLastWrite()
	for c.writer.take() {
		if c.writer.writeTaken() != nil {
			break
		}
	}
	c.hangUp()
}

// limitLastWrite gives the client CloseTimeout, or WriteTimeout if that is shorter, to read the running write.
func (c *Conn) limitLastWrite() {
	_ = c.raw.SetWriteDeadline(time.Now().Add(min(CloseTimeout, c.group.WriteTimeout)))
}

// extendWriteDeadline moves the write deadline, unless End has set one.
func (c *Conn) extendWriteDeadline(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		_ = c.raw.SetWriteDeadline(to)
	}
}

// hangUp closes the socket after reading the rest of the client's data: a kernel that closes a socket with unread
// data resets it, and the last frames would be lost.
func (c *Conn) hangUp() {
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = c.raw.SetReadDeadline(time.Now().Add(LingerTimeout))
		_, _ = io.Copy(io.Discard, io.LimitReader(c.raw, maxLinger))
	}
	_ = c.raw.Close()
}

var errEnded = errors.New("ended by the server")

// Read passes the client's requests to the handler, one after the other, until the connection ends, and returns why:
// a [websocket.CloseError] if the client closed it.
func (c *Conn) Read() error {
	for {
		if err := c.readOne(); err != nil {
			if broken, ok := errors.AsType[*CloseError](err); ok {
				c.handler.Broken(broken, c.max)
				c.End(broken.Code, broken.Text)
			}
			return c.ended(err)
		}
	}
}

func (c *Conn) readOne() error {
	if !c.frames.socket.hasMore() {
		c.writer.flush() // pongs
	}
	c.out.WaitForSpace()
	if _, _, closing := c.closeReason(); closing {
		return errEnded
	}
	if c.alive.busy.Load() {
		c.hear()
		c.alive.busy.Store(false)
	}
	if err := c.frames.socket.wait(); err != nil { // here the goroutine's stack is still small
		return err
	}
	return c.receive()
}

// receive reads one frame. If it begins a message, receive reads all of it, runs the handler, and writes the reply.
func (c *Conn) receive() error {
	h, message, err := c.frames.next()
	if err != nil || !message {
		return err
	}
	content := getBuffer()
	defer putBuffer(content)
	if err := c.frames.readText(h, content); err != nil {
		return err
	}
	c.alive.busy.Store(true)
	c.handler.Handle(content.Bytes())
	c.writer.flush()
	return nil
}

func (c *Conn) control(opcode byte, content []byte) error {
	switch opcode {
	case websocket.CloseMessage:
		return c.closedByClient(content)
	case websocket.PingMessage:
		c.out.Push(Control(websocket.PongMessage, content))
		// Pongs to pings that arrived together are written together: a system call for each would let one client keep
		// a core busy. Within a message the rest may take long to arrive.
		if c.frames.inMessage || !c.frames.socket.hasMore() {
			c.writer.flush()
		}
	}
	if !c.frames.inMessage { // the client might never end the message
		c.hear()
	}
	return nil
}

// closedByClient answers a valid close frame with its code, and returns the error that ends the connection.
func (c *Conn) closedByClient(content []byte) error {
	code, reason := websocket.CloseNoStatusReceived, []byte(nil)
	if len(content) > 0 {
		if len(content) < 2 {
			return violation("a close code of one byte")
		}
		code, reason = int(binary.BigEndian.Uint16(content)), content[2:]
		if !ValidCloseCode(code) {
			return violation("a close code that must not be sent")
		}
	}
	if !utf8.Valid(reason) {
		return errNotUTF8
	}
	c.End(code, "")
	return &websocket.CloseError{Code: code, Text: string(reason)}
}

// ValidCloseCode reports whether a client may send a code (RFC 6455, section 7.4, and later registrations at IANA).
func ValidCloseCode(code int) bool {
	switch code {
	case 1004, websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure:
		return false
	}
	return 1000 <= code && code <= 1014 || 3000 <= code && code <= 4999
}

// liveness is when a client was last heard, and the state at the last ping.
type liveness struct {
	heard atomic.Int64 // by Options.Clock
	busy  atomic.Bool  // the client waits for a reply; the server reads nothing meanwhile

	// Used only by beat.
	asked time.Duration // when the last ping was queued, or bytes of queue were last taken since; by Options.Clock
	queue int64         // bytes given to the kernel before that ping
	taken int64         // of these, the bytes that the client's kernel had acknowledged at the last check
}

func (c *Conn) hear() { c.alive.heard.Store(int64(c.group.Clock())) }
