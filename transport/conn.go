package transport

import (
	"errors"
	"io"
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
)

// conn is one WebSocket of one user: a session.
type conn struct {
	server  *Server
	ws      *websocket.Conn
	user    string
	session string
	out     *outbox
	gone    chan struct{} // closed when the server has dismissed it

	mu      sync.Mutex
	rooms   map[string]*presence // guarded by mu
	quits   bool                 // guarded by mu: no rejoin begins any more
	closing bool                 // guarded by mu: no further request is read
	code    int                  // guarded by mu: of the close frame, 0 for none
	text    string

	rejoins sync.WaitGroup // grows only with mu held, and not after quits
}

func newConn(s *Server, user string) *conn {
	return &conn{
		server: s, user: user, session: uuid.NewString(), out: newOutbox(),
		gone: make(chan struct{}), rooms: make(map[string]*presence),
	}
}

// run serves the connection to its end and returns why it ended.
func (c *conn) run(ws *websocket.Conn) error {
	c.mu.Lock()
	c.ws = ws
	c.mu.Unlock()
	var writer sync.WaitGroup
	writer.Go(c.write)

	ws.SetReadLimit(protocol.MaxFrame)
	ws.SetPongHandler(func(string) error { c.expect(); return nil })
	c.expect()
	reason := c.read()

	rooms := c.quit()
	c.server.departures.add(c.user, c.session, rooms)
	if c.server.opts.Duplicate == room.Reject {
		// Before the client reads that it should come back.
		c.server.departures.detach(c.user, c.session, rooms)
	}
	c.out.finish()
	writer.Wait()
	c.hangUp()
	return reason
}

// expect gives the client two ping intervals for its next sign of life.
func (c *conn) expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		_ = c.ws.SetReadDeadline(time.Now().Add(2 * c.server.opts.PingInterval))
	}
}

// end lets the request that runs finish, sends what has been said, and then
// closes the connection. The first reason counts. It does not block.
func (c *conn) end(code int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return
	}
	c.closing, c.code, c.text = true, code, text
	if c.ws != nil {
		_ = c.ws.SetReadDeadline(time.Now()) // wakes the reader
	}
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

// read runs the client's requests, one after the other.
func (c *conn) read() error {
	for {
		if _, _, closing := c.closeReason(); closing {
			return errEnded
		}
		kind, frame, err := c.ws.ReadMessage()
		if err != nil {
			return err
		}
		c.expect()
		switch {
		case kind != websocket.TextMessage:
			c.end(protocol.CloseNotText, "only text frames are understood")
		case !utf8.Valid(frame):
			c.end(protocol.CloseNotUTF8, "a text frame was not UTF-8")
		default:
			c.handle(frame)
		}
	}
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
		if p.rejoin != nil {
			p.rejoin.cancel()
		}
		if p.member || p.unsure {
			rooms = append(rooms, id)
		}
	}
	c.mu.Unlock()
	c.rejoins.Wait()
	for _, stop := range stops {
		stop()
	}
	return rooms
}

// hangUp closes the socket, and before that reads what the client may still be
// sending: a kernel that has unread data resets the connection, and the client
// would not see what was written last.
func (c *conn) hangUp() {
	raw := c.ws.NetConn()
	if half, ok := raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = raw.SetReadDeadline(time.Now().Add(linger))
		_, _ = io.Copy(io.Discard, io.LimitReader(raw, 1<<20))
	}
	_ = raw.Close()
}
