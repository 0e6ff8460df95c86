// Package session is what one user does by one connection: the requests of the client, and what the session is to each
// room. Its way in is Session.Handle, for a request, and presence.receive, for an event of a room; its way out is the
// outbox, which Session.Take empties. It knows no server and no sockets.
package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/internal/outbox"
	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

// Session is a user for as long as one connection of theirs lasts: it runs the client's
// requests, and knows the rooms in which the user is a member or watches.
type Session struct {
	ID      string
	User    string // "" until the client has shown a token; then constant
	access  *Access
	shared  *Shared
	out     *outbox.Outbox
	conn    Conn
	outcome string // used by the goroutine that runs requests: what the present one led to, for the log

	throttle throttle

	mu        sync.Mutex           // locked before those of the connection and the outbox
	presences map[string]*presence // guarded by mu: by room
	serving   string               // guarded by mu: the room of the request that runs; "" if none does
	toFollow  []string             // guarded by mu: the rooms to which the user was moved out of that room meanwhile
	left      []string             // guarded by mu: the last rooms that the client has left; see take
	closed    bool                 // guarded by mu: no request and no recovery begins any more

	ctx        context.Context // of recoveries and refills, from Begin to Close
	cancel     context.CancelFunc
	background sync.WaitGroup // recoveries and refills; it grows only with mu held, and not once closed
}

// Conn is the connection of a session.
type Conn interface {
	// End closes the connection once the request that runs has ended and what is queued is written, with the code and
	// text of a close frame. Only the first call counts, and returns true. It does not block.
	End(code int, text string) (first bool)

	// IsOver reports whether the client has closed the connection behind the request that runs.
	IsOver() bool

	// Named is called when the client has shown its first token.
	Named()
}

// New returns the session of a user, or of a client that has shown no token yet if user is "". Its frames go through
// out, whose writer takes them by Take.
func New(shared *Shared, user string, access *Access, out *outbox.Outbox, conn Conn) *Session {
	if access != nil {
		access.conn, access.late = conn, func() { shared.Refused(LimitAuth) }
	}
	return &Session{
		ID: uuid.NewString(), User: user, access: access, shared: shared, out: out, conn: conn,
		presences: make(map[string]*presence), throttle: throttle{shared: shared, access: access},
	}
}

// Begin is called when the connection is open. Pair it with Close.
func (s *Session) Begin() {
	s.ctx, s.cancel = context.WithCancel(s.shared.Life)
	if s.User != "" {
		s.throttle.user = s.shared.Users.acquire(s.User)
	}
	if s.access != nil {
		s.access.start(s.shared.limits.Load().AuthTimeout)
	}
}

// Handle runs the request that a frame holds and queues its reply.
func (s *Session) Handle(frame []byte) {
	decoded, bad := protocol.DecodeRequest(frame)
	r := requestPool.Get().(*request)
	defer func() {
		*r = request{}
		requestPool.Put(r)
	}()
	*r = request{session: s, in: decoded}
	cost := 1
	if action := protocol.ActionNamed(decoded.Action); action != nil {
		cost = action.Cost
	}
	refusal, cutOff := s.throttle.request(cost)
	switch {
	case refusal != nil:
		r.refuseRate(bad, refusal, cutOff)
	case bad != nil:
		s.out.Push(frames.Reply(bad.Reply()))
	case decoded.Action == protocol.ActionAuth:
		authenticate(r)
	case decoded.Action == protocol.ActionPing:
		ping(r)
	case s.shared.Debug.enabled():
		r.runLogged()
	default:
		r.run()
	}
	if s.User == "" { // whose first frame has not said with a valid token who its user is
		s.conn.End(protocol.CloseUnauthorized,
			fmt.Sprintf("the first request must be %s, with a valid token", protocol.ActionAuth))
	}
}

// Noop counts a frame that asks for nothing.
func (s *Session) Noop() error { return s.throttle.noopFrame() }

// Broken says which limit a frame exceeds, before the connection is closed for it.
func (s *Session) Broken(broken *ws.CloseError, max int) {
	switch broken.Code {
	case protocol.CloseTooBig:
		s.shared.Refused(LimitFrame)
		s.out.Push(frames.Reply(&protocol.Reply{Error: protocol.NewError(protocol.CodeTooLarge,
			"a request has at most %d bytes", max)}))
	case protocol.CloseTooMany, protocol.ClosePolicy:
		s.shared.Refused(LimitFlood)
	}
}

// Take appends about size bytes of queued frames to batch, and has the rooms read of which the client gets a snapshot.
func (s *Session) Take(batch [][]byte, size int) [][]byte {
	for size > 0 {
		frame, events := s.out.Next()
		if frame == nil && events == nil {
			break
		}
		first := len(batch)
		if frame != nil {
			batch = append(batch, frame)
		} else {
			batch = frames.Append(batch, s.viewer(events[0].Room), s.shared.Now, events)
			if n := len(events) - (len(batch) - first); n > 0 {
				s.shared.Merged(n)
			}
		}
		for _, f := range batch[first:] {
			size -= len(f)
		}
	}
	for _, queue := range s.out.TakeStale() {
		s.refill(queue)
	}
	return batch
}

// admit returns an error if a room would be one too many for the connection. An admin's may be in any number.
func (s *Session) admit(id string) error {
	admin := s.access.isAdmin()
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.shared.limits.Load().MaxRooms
	if s.closed || s.presences[id] != nil || len(s.presences) < limit || admin {
		return nil
	}
	s.shared.Refused(LimitRooms)
	return &room.InvalidError{Field: "room",
		Problem: fmt.Sprintf("is one too many: a connection can be in, or watch, %d rooms", limit)}
}

// Claims reports whether the session is in a room, or may be soon. A closed one claims all
// rooms until its disconnect timers have begun.
func (s *Session) Claims(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presences[id]
	return s.closed || p != nil && (p.membership.Status.MayBeMember() || p.busy > 0 || p.recovery != nil)
}

// Count adds the rooms of the session to rooms. It returns in how many it has a seat, and how many it watches.
func (s *Session) Count(rooms map[string]struct{}) (members, watchers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.presences {
		if p.membership.Status.IsMember() {
			members++
		}
		if p.watch.on {
			watchers++
		}
		if p.needsEvents() {
			rooms[id] = struct{}{}
		}
	}
	return members, watchers
}

// Close ends the session's recoveries, refills and subscriptions, after its last request. It returns the rooms in which
// the session may still speak for its user.
func (s *Session) Close() (rooms []string) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.background.Wait()
	var unsubscribe []func()
	s.mu.Lock()
	for id, p := range s.presences {
		if p.unsubscribe != nil {
			unsubscribe = append(unsubscribe, p.unsubscribe)
		}
		if p.membership.Status.MayBeMember() {
			rooms = append(rooms, id)
		}
	}
	s.mu.Unlock()
	for _, fn := range unsubscribe {
		fn()
	}
	if s.access != nil {
		s.access.stop()
	}
	if s.throttle.user != nil {
		s.shared.Users.release(s.User, s.throttle.user)
	}
	return rooms
}
