package transport

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/internal/membership"
	"roomd/transport/internal/outbox"
	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

// session is a user for as long as one connection of theirs lasts: it runs the client's
// requests, and knows the rooms in which the user is a member or watches.
type session struct {
	id       string
	user     string // "" until the client has shown a token; then constant
	access   *access
	server   *Server
	out      *outbox.Outbox
	end      func(code int, text string) // ends the connection
	onUser   func()                      // called when the client has shown its first token
	maxFrame int                         // bytes of a request
	isOver   func() bool                 // reports whether the client has closed the connection behind the request that runs
	outcome  string                      // used by the goroutine that runs requests: what the present one led to, for the log

	throttle throttle

	mu        sync.Mutex           // locked before those of the connection and the outbox
	presences map[string]*presence // guarded by mu: by room
	serving   string               // guarded by mu: the room of the request that runs; "" if none does
	opened    *outbox.Room         // guarded by mu: the events of that room that have begun meanwhile, and may have ended; or nil
	toFollow  []string             // guarded by mu: the rooms to which the user was moved out of that room meanwhile
	left      []string             // guarded by mu: the last rooms that the client has left; see take
	closed    bool                 // guarded by mu: no request and no recovery begins any more
	ctx       context.Context      // guarded by mu: of refills, ends with the session; nil before the first
	cancel    context.CancelFunc   // guarded by mu

	background sync.WaitGroup // recoveries and refills; it grows only with mu held, and not once closed
}

func newSession(s *Server, user string, access *access, out *outbox.Outbox, end func(code int, text string)) *session {
	if access != nil {
		access.end = end
		access.onLate = func() { s.opts.Trace.refused(LimitAuth) }
	}
	session := &session{
		id: uuid.NewString(), user: user, access: access, server: s, out: out, end: end, isOver: func() bool { return false },
		presences: make(map[string]*presence), throttle: throttle{server: s},
	}
	session.throttle.isAdmin = session.isAdmin
	return session
}

// enter counts the connection among those of its user, when that is known.
func (s *session) enter() { s.throttle.user = s.server.users.acquire(s.user) }

// exit undoes enter, when the connection has ended.
func (s *session) exit() {
	if t := s.throttle.user; t != nil {
		s.server.users.release(s.user, t)
	}
}

// request is one request of a session.
type request struct {
	session *session
	in      protocol.Request
	held    *outbox.Room // the events of its room, if there were some when it began

	subscribed bool            // it has begun the events of its room
	said       []protocol.Said // that go with the reply
}

// requestPool holds requests, which are used again. One is of no use to anybody when its reply is queued.
var requestPool = sync.Pool{New: func() any { return new(request) }}

func (r *request) free() {
	*r = request{}
	requestPool.Put(r)
}

// Handle runs the request that a frame holds and queues its reply.
func (s *session) Handle(frame []byte) {
	decoded, bad := protocol.DecodeRequest(frame)
	r := requestPool.Get().(*request)
	defer r.free()
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
		r.authenticate()
	case decoded.Action == protocol.ActionPing:
		r.ping()
	case s.server.debug.enabled():
		r.runLogged()
	default:
		r.run()
	}
	s.requireUser()
}

// Noop counts a frame that asks for nothing.
func (s *session) Noop() error { return s.throttle.noopFrame() }

// Broken says which limit a frame exceeds, before the connection is closed for it.
func (s *session) Broken(broken *ws.CloseError) {
	switch broken.Code {
	case protocol.CloseTooBig:
		s.server.opts.Trace.refused(LimitFrame)
		s.out.Push(frames.Reply(&protocol.Reply{Error: protocol.NewError(protocol.CodeTooLarge,
			"a request has at most %d bytes", s.maxFrame)}))
	case protocol.CloseTooMany, protocol.ClosePolicy:
		s.server.opts.Trace.refused(LimitFlood)
	}
}

// Take appends about size bytes of queued frames to batch, and has the rooms read of which the client gets a snapshot.
func (s *session) Take(batch [][]byte, size int) [][]byte {
	for size > 0 {
		frame, events := s.out.Next()
		if frame == nil && events == nil {
			break
		}
		first := len(batch)
		if frame != nil {
			batch = append(batch, frame)
		} else {
			batch = frames.Append(batch, s.viewer(events[0].Room), s.server.now, events)
			s.server.opts.Trace.merged(len(events) - (len(batch) - first))
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

// run runs a request about a room.
func (r *request) run() {
	r.begin()
	r.dispatch()
	r.finish()
}

// begin holds the room's events until the reply, and until what came meanwhile is judged.
func (r *request) begin() {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = r.in.Room
	if p := s.presences[r.in.Room]; p != nil && p.queue != nil {
		r.held = p.queue
		r.held.Hold()
	}
}

// finish has the room's events go on, and the session go where its user was moved meanwhile.
func (r *request) finish() {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	r.release()
	if s.opened != nil {
		s.opened.Release()
	}
	follow := s.toFollow
	s.serving, s.opened, s.toFollow = "", nil, nil
	for _, id := range follow {
		s.followLocked(id)
	}
}

// release lets the events go on that were held when the request began. The reader writes them, with the reply.
func (r *request) release() {
	if r.held != nil {
		r.held.Release()
	}
}

// queue returns that of the events of the request's room, also if they have ended since it began, or nil.
func (r *request) queue() *outbox.Room {
	queue, _ := r.waiting()
	return queue
}

// waiting returns the queue, and the events whose meaning for the session is not judged yet.
func (r *request) waiting() (queue *outbox.Room, deferred []*room.Event) {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.presences[r.in.Room]; p != nil {
		queue, deferred = p.queue, p.deferred
	}
	return cmp.Or(queue, s.opened, r.held), deferred
}

func (r *request) dispatch() {
	if err := r.permit(); err != nil {
		r.refuse(err)
		return
	}
	switch r.in.Action {
	case protocol.ActionJoin:
		r.join()
	case protocol.ActionMatch:
		r.match()
	case protocol.ActionLeave:
		r.leave()
	case protocol.ActionUsers:
		r.users()
	case protocol.ActionWatch:
		r.watch()
	case protocol.ActionUnwatch:
		r.unwatch()
	default:
		r.act()
	}
}

// do runs an action in a room, on behalf of the client.
func (s *session) do(id string, action room.Action) (room.Result, error) {
	return s.server.rooms.Do(s.server.life, id, action)
}

// errReplaced refuses a request that was read before the connection was closed, but after a
// newer session had taken over its last room. A join would get a seat for a client that is
// told not to connect again.
var errReplaced = protocol.NewError(protocol.CodeDuplicateUser, "a newer session of the user has taken over the last room of this one; nothing was written")

// beginSubscribed is begin for a join or a watch. It subscribes to the room's events
// before the request runs, so that none is missing after its reply.
func (r *request) beginSubscribed() (*presence, error) {
	s, id := r.session, r.in.Room
	if err := s.admit(id); err != nil {
		return nil, err
	}
	p, err := s.begin(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	idle := p.hasIdleEvents()
	s.mu.Unlock()
	if idle { // the client has heard that it lost the place, and its queue has ended
		p.endEvents(true)
	}
	if p.unsubscribe == nil { // only requests and recoveries write it, and no other runs now
		r.release() // what is left of an earlier time
		s.out.Start()
		if err := p.subscribe(); err != nil {
			p.end()
			return nil, err
		}
		r.subscribed = true
	}
	return p, nil
}

// admit returns an error if a room would be one too many for the connection. An admin's may be in any number.
func (s *session) admit(id string) error {
	admin := s.isAdmin()
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.server.limits.Load().maxRooms
	if s.closed || s.presences[id] != nil || len(s.presences) < limit || admin {
		return nil
	}
	s.server.opts.Trace.refused(LimitRooms)
	return &room.InvalidError{Field: "room", Problem: fmt.Sprintf("is one too many: a connection can be in, or watch, %d rooms", limit)}
}

// claims reports whether the session is in a room, or may be soon. A closed one claims all
// rooms until its disconnect timers have begun.
func (s *session) claims(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presences[id]
	return s.closed || p != nil && (p.mayBeMember() || p.busy > 0 || p.recovery != nil)
}

// mayBeMember reports whether the session may speak for its user in the room.
func (p *presence) mayBeMember() bool {
	return p.membership.Status.IsMember() || p.membership.Status == membership.Unknown
}

// close ends the session's recoveries, refills and subscriptions. It returns the rooms in which the
// session may still speak for its user.
func (s *session) close() (rooms []string) {
	s.mu.Lock()
	s.closed = true
	for _, p := range s.presences {
		if p.recovery != nil {
			p.recovery.cancel()
		}
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.background.Wait()
	var unsubscribe []func()
	s.mu.Lock()
	for id, p := range s.presences {
		if p.unsubscribe != nil {
			unsubscribe = append(unsubscribe, p.unsubscribe)
		}
		if p.mayBeMember() {
			rooms = append(rooms, id)
		}
	}
	s.mu.Unlock()
	for _, fn := range unsubscribe {
		fn()
	}
	return rooms
}
