package transport

import (
	"context"
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

	// Rooms in which this session may speak for the user, and the end of the
	// watch of each, nil if there is none. Only the reading goroutine has them.
	joined map[string]func()

	mu      sync.Mutex
	closing bool // guarded by mu: no further request is read
	code    int  // guarded by mu: of the close frame, 0 for none
	text    string
}

func newConn(s *Server, user string) *conn {
	return &conn{server: s, user: user, session: uuid.NewString(), out: newOutbox(), joined: make(map[string]func())}
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

	c.stopWatching()
	c.out.finish()
	writer.Wait()
	c.hangUp()
	if !c.server.isDraining() {
		c.leaveAll()
	}
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

// handle runs one request and queues its reply.
func (c *conn) handle(frame []byte) {
	req, bad := protocol.DecodeRequest(frame)
	if bad != nil {
		c.out.reply(bad.Reply())
		return
	}
	c.out.hold(req.Room) // until its reply
	switch req.Action {
	case protocol.ActionJoin:
		c.join(req)
	case protocol.ActionLeave:
		c.leave(req)
	case protocol.ActionUsers:
		c.users(req)
	}
}

func (c *conn) join(req protocol.Request) {
	action := room.Join(c.user, c.session)
	if req.Seat != nil {
		action = action.At(*req.Seat)
	}
	stop, before := c.joined[req.Room]
	if stop == nil {
		if err := c.watch(req.Room); err != nil {
			c.refuse(req, err)
			return
		}
	}
	result, err := c.server.rooms.Do(c.server.life, req.Room, action)
	switch {
	case err == nil:
		c.out.replySnapshot(&protocol.Reply{
			ID: &req.ID, Room: req.Room, Epoch: result.Epoch, Version: result.Version,
			Seat: &result.Seat, Count: result.Count(), List: encoded(result.Snapshot),
		})
		return
	case stop == nil:
		c.unwatch(req.Room)
	}
	if !before && !errors.Is(err, room.ErrUnknown) {
		delete(c.joined, req.Room) // else the session may be a member
	}
	c.refuse(req, err)
}

func (c *conn) leave(req protocol.Request) {
	result, err := c.server.rooms.Do(c.server.life, req.Room, room.Leave(c.user, c.session))
	if err != nil {
		c.refuse(req, err)
		return
	}
	c.unwatch(req.Room)
	delete(c.joined, req.Room)
	c.out.reply(&protocol.Reply{
		ID: &req.ID, Room: req.Room, Epoch: result.Epoch, Version: result.Version, Count: result.Count(),
	})
}

func (c *conn) users(req protocol.Request) {
	s, err := c.server.rooms.Read(c.server.life, req.Room)
	if err != nil {
		c.refuse(req, err)
		return
	}
	c.out.replySnapshot(&protocol.Reply{
		ID: &req.ID, Room: req.Room, Epoch: s.Epoch, Version: s.Version, Count: s.Count(), List: encoded(s),
	})
}

func (c *conn) refuse(req protocol.Request, err error) {
	e := toProtocol(err)
	if e.Code == protocol.CodeInternal || e.Code == protocol.CodeUnavailable || e.Code == protocol.CodeUnknown {
		c.server.opts.Log.Warn().Str("action", req.Action).Str("room", req.Room).Str("user", c.user).Err(err).Msg(e.Code)
	}
	c.out.reply(&protocol.Reply{ID: &req.ID, Error: e})
	c.out.release(req.Room)
}

// watch has the room's events held for this connection, from before the join, so
// that none is missing behind its reply.
func (c *conn) watch(id string) error {
	ctx, cancel := context.WithTimeout(c.server.life, watchTimeout)
	defer cancel()
	c.out.open(id)
	stop, err := c.server.rooms.Watch(ctx, id, func(e *room.Event) { c.event(e) })
	if err != nil {
		c.out.close(id)
		if errors.Is(err, context.DeadlineExceeded) {
			return errors.Join(room.ErrUnavailable, err)
		}
		return err
	}
	c.joined[id] = stop
	return nil
}

func (c *conn) unwatch(id string) {
	if stop := c.joined[id]; stop != nil {
		stop()
		c.joined[id] = nil
	}
	c.out.close(id)
}

func (c *conn) stopWatching() {
	for id := range c.joined {
		c.unwatch(id)
	}
}

// event takes what happened in a room that the connection watches. It is called
// by the room's feed and does not block.
func (c *conn) event(e *room.Event) {
	for _, r := range e.Replaced {
		if r.User == c.user && r.Session == c.session {
			c.end(protocol.CloseReplaced, "replaced by a newer session")
			return
		}
	}
	if !c.out.event(e) {
		c.end(protocol.CloseTooSlow, "events were not read fast enough")
	}
}

// leaveAll takes the user out of the rooms in which the session still speaks.
func (c *conn) leaveAll() {
	ctx, cancel := context.WithTimeout(c.server.life, c.server.opts.LeaveTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for id := range c.joined {
		wg.Go(func() {
			_, err := c.server.rooms.Do(ctx, id, room.Leave(c.user, c.session))
			if err != nil && !errors.Is(err, room.ErrNotMember) {
				c.server.opts.Log.Warn().Str("room", id).Str("user", c.user).Err(err).Msg("a disconnected user stays in the room")
			}
		})
	}
	wg.Wait()
}

// encoded returns the list of a room, encoded once for all who are shown it.
func encoded(s room.Snapshot) []byte {
	return s.Shared(func() any { return protocol.AppendUsers(nil, seated(s.Users())) }).([]byte)
}

func seated(users []room.Occupant) []protocol.Seated {
	list := make([]protocol.Seated, len(users))
	for i, u := range users {
		list[i] = protocol.Seated{User: u.User, Seat: u.Seat}
	}
	return list
}
