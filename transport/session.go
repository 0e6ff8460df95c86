package transport

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"roomd/room"
	"roomd/transport/protocol"
)

// session is a user for as long as one connection of theirs lasts: it runs the client's
// requests, and knows the rooms in which the user is a member or watches.
type session struct {
	id      string
	user    string // "" until the client has shown a token; then constant
	access  *access
	server  *Server
	out     *outbox
	streams *streams
	end     func(code int, text string) // ends the connection
	onUser  func()                      // called when the client has shown its first token
	result  string                      // used by the goroutine that runs requests: what the present one led to, for the log

	throttle throttle
	turns    turns

	mu          sync.Mutex             // locked before those of the connection and the outbox
	memberships map[string]*membership // guarded by mu: by room
	replaced    bool                   // guarded by mu: a newer session speaks for the user; no request begins any more
	closed      bool                   // guarded by mu: no rejoin starts any more

	rejoins sync.WaitGroup // grows only with mu held, and not once closed
}

func newSession(s *Server, user string, access *access, out *outbox, end func(code int, text string)) *session {
	if access != nil {
		access.end = end
		access.onLate = func() { s.opts.Trace.refused(LimitAuth) }
	}
	next := &session{
		id: uuid.NewString(), user: user, access: access, server: s, out: out, streams: out.streams, end: end,
		memberships: make(map[string]*membership), throttle: throttle{server: s},
	}
	next.turns.init(&next.mu)
	return next
}

// enter counts the connection among those of its user, when that is known.
func (s *session) enter() { s.throttle.user = s.server.users.enter(s.user) }

// exit undoes enter, when the connection has ended.
func (s *session) exit() {
	if t := s.throttle.user; t != nil {
		s.server.users.leave(s.user, t)
	}
}

// request is one request of a session.
type request struct {
	*session
	protocol.Request
}

// handle runs the request that a frame holds and queues its reply.
func (s *session) handle(frame []byte) {
	decoded, bad := protocol.DecodeRequest(frame)
	r := &request{s, decoded}
	cost := 1
	if r.Action == protocol.ActionSay {
		cost = sayCost
	}
	refusal, cutOff := s.throttle.request(cost)
	switch {
	case refusal != nil:
		r.refuseRate(bad, refusal, cutOff)
	case bad != nil:
		s.out.push(replyFrame(bad.Reply()))
	case r.Action == protocol.ActionAuth:
		r.authenticate()
	case r.Action == protocol.ActionPing:
		r.ping()
	case s.server.debug.enabled():
		r.runLogged()
	default:
		r.run()
	}
	s.requireUser()
}

// run runs a request about a room. The room's events are held until the reply, and until what
// came meanwhile is judged.
func (r *request) run() {
	r.turns.beginRequest(r.Room)
	defer r.turns.endRequest()
	r.streams.hold(r.Room)
	r.dispatch()
	r.streams.release(r.Room)
}

func (r *request) dispatch() {
	if r.access != nil {
		if err := r.access.permit(r.Request, r.isInside(r.Room)); err != nil {
			r.refuse(err)
			return
		}
	}
	switch r.Action {
	case protocol.ActionJoin:
		r.join()
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
// newer session had replaced this one. A join would take the place back for a client that is
// told not to connect again.
var errReplaced = protocol.NewError(protocol.CodeDuplicateUser, "a newer session of the user has replaced this one; nothing was written")

// beginRequest gives a request of the client exclusive control of the session's membership
// in the room: a rejoin that runs is cancelled and waited for, and no other starts before
// endRequest. It returns nil if the session is neither a member nor watches, and errReplaced
// if another one has replaced it.
func (s *session) beginRequest(id string) (*membership, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.memberships[id]; m != nil {
		m.requested = true
		if running := m.rejoin; running != nil {
			s.mu.Unlock()
			running.cancel()
			<-running.done
			s.mu.Lock()
		}
		m.requested = !s.replaced
	}
	if s.replaced {
		return nil, errReplaced
	}
	return s.memberships[id], nil // the rejoin may have deleted it
}

// beginSubscribed is beginRequest for a join or a watch. It subscribes to the room's events
// before the request runs, so that none is missing after its reply.
func (s *session) beginSubscribed(id string) (*membership, error) {
	m, err := s.beginRequest(id)
	if err == nil && m == nil {
		m, err = s.newMembership(id)
	}
	if err != nil {
		return nil, err
	}
	if m.unsubscribe == nil { // only requests and rejoins write it, and no other runs now
		if err := m.subscribe(); err != nil {
			m.endRequest()
			return nil, err
		}
	}
	return m, nil
}

func (s *session) newMembership(id string) (*membership, error) {
	s.mu.Lock()
	full := len(s.memberships) >= s.server.opts.MaxRooms
	s.mu.Unlock()
	if limit := s.server.opts.MaxRooms; full {
		s.server.opts.Trace.refused(LimitRooms)
		return nil, &room.InvalidError{Field: "room", Problem: fmt.Sprintf("is one too many: a connection can be in, or watch, %d rooms", limit)}
	}
	return s.addMembership(id), nil
}

// addMembership adds a room to the session, for a request that runs.
func (s *session) addMembership(id string) *membership {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &membership{room: id, session: s, requested: true, standing: room.Standing{User: s.user, Session: s.id}}
	s.memberships[id] = m
	return m
}

// isInside reports whether the session is a member of a room, or watches it.
func (s *session) isInside(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memberships[id] != nil
}

// claims reports whether the session is in a room, or may be soon. A closed one claims all
// rooms until its graces have begun.
func (s *session) claims(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.memberships[id]
	return s.closed || m != nil && (m.member || m.unsure || m.requested || m.rejoin != nil)
}

// close ends the session's rejoins, follows and subscriptions. It returns the rooms in which the
// session may still speak for its user.
func (s *session) close() (rooms []string) {
	s.mu.Lock()
	s.closed = true
	for _, m := range s.memberships {
		if m.rejoin != nil {
			m.rejoin.cancel()
		}
	}
	s.turns.closeLocked()
	s.mu.Unlock()
	s.rejoins.Wait() // a follow may add a room until then
	var unsubscribe []func()
	s.mu.Lock()
	for id, m := range s.memberships {
		if m.unsubscribe != nil {
			unsubscribe = append(unsubscribe, m.unsubscribe)
		}
		if m.member || m.unsure {
			rooms = append(rooms, id)
		}
	}
	s.mu.Unlock()
	for _, fn := range unsubscribe {
		fn()
	}
	return rooms
}

// watchContext bounds the wait for a room's subscription.
func (s *session) watchContext() context.Context { return s.server.watching.Context() }
