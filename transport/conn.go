package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"roomd/room"
	"roomd/transport/protocol"
)

const (
	// watchTimeout bounds the wait for a room's subscription before a join.
	watchTimeout = 5 * time.Second

	// linger is how long a closed connection is read on, so that what was
	// written last arrives before the kernel resets it.
	linger = time.Second

	// closeTimeout is how long a client that the server closes may take to read what is
	// being written, and then what is left to be said.
	closeTimeout = 5 * time.Second
)

// conn is one WebSocket of one user: a session.
type conn struct {
	server  *Server
	ws      *websocket.Conn
	user    string
	session string
	out     *outbox
	gone    chan struct{} // closed when the server has dismissed it

	raw     net.Conn // what ws reads from, and we write to
	writers sync.WaitGroup

	// Of who writes; the outbox says who that is.
	frames  [][]byte
	writeBy time.Time // the deadline that is set

	mu      sync.Mutex
	rooms   map[string]*presence // guarded by mu
	quits   bool                 // guarded by mu: no heal begins any more
	closing bool                 // guarded by mu: no further request is read
	code    int                  // guarded by mu: of the close frame, 0 for none
	text    string
	readBy  time.Time   // guarded by mu: the deadline that is set
	pings   *time.Timer // guarded by mu

	heals sync.WaitGroup // grows only with mu held, and not after quits
}

func newConn(s *Server, user string) *conn {
	c := &conn{
		server: s, user: user, session: uuid.NewString(),
		gone: make(chan struct{}), rooms: make(map[string]*presence),
	}
	c.out = newOutbox(c.startWriter, s.opts.MaxQueue)
	return c
}

// run serves the connection to its end and returns why it ended.
func (c *conn) run(ws *websocket.Conn) error {
	c.mu.Lock()
	c.ws, c.raw = ws, ws.NetConn()
	c.pings = time.AfterFunc(c.server.opts.PingInterval, c.ping)
	c.mu.Unlock()
	ws.SetReadLimit(protocol.MaxFrame)
	ws.SetPongHandler(func(string) error { c.expect(); return nil })
	ws.SetPingHandler(c.pong)
	ws.SetCloseHandler(func(code int, _ string) error { c.end(code, ""); return nil })
	c.expect()
	reason := c.read()
	if _, _, closing := c.closeReason(); !closing {
		c.end(0, "")
		c.out.drop() // the client is gone, or gorilla has told it what it did wrong
	}

	rooms := c.quit()
	c.server.departures.add(c.user, c.session, rooms)
	if c.server.opts.Duplicate == room.Reject {
		// Before the client reads that it should come back.
		c.server.departures.detach(c.user, c.session, rooms)
	}
	c.finish()
	c.hangUp()
	return reason
}

// finish writes what is left to be said. Nothing more will come.
func (c *conn) finish() {
	var last []byte
	if code, text, _ := c.closeReason(); code != 0 {
		last = controlFrame(websocket.CloseMessage, websocket.FormatCloseMessage(code, text))
	}
	c.out.finish(last)
	c.mu.Lock()
	c.pings.Stop()
	c.mu.Unlock()
	c.writers.Wait()
	c.hurry()
	for c.out.left() && c.writeSome() == nil {
	}
}

// expect gives the client two ping intervals for its next sign of life, or up to an
// eighth of one more, so that the deadline is not moved for every frame.
func (c *conn) expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	interval := c.server.opts.PingInterval
	if now := time.Now(); !c.closing && c.readBy.Sub(now) < 2*interval {
		c.readBy = now.Add(2*interval + interval/8)
		_ = c.ws.SetReadDeadline(c.readBy)
	}
}

// ping asks the client for a sign of life, time and again.
func (c *conn) ping() {
	if c.out.ping(controlFrame(websocket.PingMessage, nil)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pings.Reset(c.server.opts.PingInterval)
	}
}

// pong answers a ping of the client.
func (c *conn) pong(data string) error {
	c.out.await()
	c.out.push(controlFrame(websocket.PongMessage, []byte(data)))
	c.flush()
	return nil
}

// end lets the request that runs finish, sends what has been said, and then
// closes the connection. The first reason counts. It does not block.
func (c *conn) end(code int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(code, text)
}

func (c *conn) endLocked(code int, text string) {
	if c.closing {
		return
	}
	c.closing, c.code, c.text = true, code, text
	c.out.finish(nil)
	if c.ws != nil {
		c.hurry()
		_ = c.ws.SetReadDeadline(time.Now()) // wakes the reader
	}
}

// hurry gives the client closeTimeout to read what is written.
func (c *conn) hurry() {
	_ = c.raw.SetWriteDeadline(time.Now().Add(min(closeTimeout, c.server.opts.WriteTimeout)))
}

// abort cuts the connection off.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if c.ws != nil {
		_ = c.ws.Close()
	}
}

// closeReason returns what end was told.
func (c *conn) closeReason() (code int, text string, closing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code, c.text, c.closing
}

var errEnded = errors.New("ended by the server")

// read runs the client's requests, one after the other. A panic ends the connection,
// and not the node.
func (c *conn) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			c.server.troubles.panics.Happened(err, "user", c.user, "stack", string(debug.Stack()))
		}
	}()
	for {
		c.out.await()
		if _, _, closing := c.closeReason(); closing {
			return errEnded
		}
		kind, from, err := c.ws.NextReader()
		if err != nil {
			return err
		}
		if err := c.receive(kind, from); err != nil {
			return err
		}
	}
}

// receive reads one frame and does what it says.
func (c *conn) receive(kind int, from io.Reader) error {
	frame := getBuffer()
	defer putBuffer(frame)
	if _, err := frame.ReadFrom(from); err != nil {
		return err
	}
	c.expect()
	switch {
	case kind != websocket.TextMessage:
		c.end(protocol.CloseNotText, "only text frames are understood")
	case !utf8.Valid(frame.Bytes()):
		c.end(protocol.CloseNotUTF8, "a text frame was not UTF-8")
	default:
		c.handle(frame.Bytes())
		c.flush()
	}
	return nil
}

// quit ends what the connection has to do with its rooms, and returns those in
// which its session may still speak for the user.
func (c *conn) quit() (rooms []string) {
	c.mu.Lock()
	c.quits = true
	var stops []func()
	for id, p := range c.rooms {
		if p.stop != nil {
			stops = append(stops, p.stop)
		}
		if p.heal != nil {
			p.heal.cancel()
		}
		if p.member || p.unsure {
			rooms = append(rooms, id)
		}
	}
	c.mu.Unlock()
	c.heals.Wait()
	for _, stop := range stops {
		stop()
	}
	return rooms
}

// hangUp closes the socket, and before that reads what the client may still be
// sending: a kernel that has unread data resets the connection, and the client
// would not see what was written last.
func (c *conn) hangUp() {
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = c.raw.SetReadDeadline(time.Now().Add(linger))
		_, _ = io.Copy(io.Discard, io.LimitReader(c.raw, 1<<20))
	}
	_ = c.raw.Close()
}
