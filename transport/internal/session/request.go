package session

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"
	"time"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/internal/outbox"
	"roomd/transport/protocol"
)

type request struct {
	session *Session
	in      protocol.Request

	shown      bool            // the client got the room's events when the request began
	subscribed bool            // the request has started the subscription
	said       []protocol.Said // earlier messages for the reply
}

// requestPool reuses requests. Nothing refers to one once its reply is queued.
var requestPool = sync.Pool{New: func() any { return new(request) }}

func (r *request) run() {
	r.begin()
	r.dispatch()
	r.finish()
}

// begin holds the room's events until the reply, and until deferred events are judged.
func (r *request) begin() {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = r.in.Room
	p := s.presences[r.in.Room]
	if p != nil {
		p.queue.Hold()
	}
	r.shown = p != nil && p.unsubscribe != nil
}

// finish releases the room's events, which the reader writes with the reply, and follows moves that came meanwhile.
func (r *request) finish() {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	p, follow := s.presences[s.serving], s.toFollow
	s.serving, s.toFollow = "", nil
	if p != nil {
		if p.queue.Release(); p.isUnused() {
			delete(s.presences, p.room)
		}
	}
	for _, id := range follow {
		s.followLocked(id)
	}
}

// replyQueue returns the queue of the room's events, or nil, and the events that are not judged yet. A pause that the
// request ended, or for whose end it waited, ends before the reply: earlier events come first.
func (r *request) replyQueue() (queue *outbox.Room, deferred []*room.Event) {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presences[r.in.Room]
	if p == nil {
		return nil, nil
	}
	if !p.membership.Status.IsPaused() {
		p.queue.Resume()
	}
	return p.queue, p.deferred
}

func (r *request) dispatch() {
	if err := r.permit(); err != nil {
		r.refuse(err)
		return
	}
	switch r.in.Action {
	case protocol.ActionJoin:
		join(r)
	case protocol.ActionMatch:
		match(r)
	case protocol.ActionLeave:
		leave(r)
	case protocol.ActionUsers:
		users(r)
	case protocol.ActionWatch:
		watch(r)
	case protocol.ActionUnwatch:
		unwatch(r)
	default:
		act(r)
	}
}

// ping answers without asking Redis: it shows only that the connection works.
func ping(r *request) {
	if err := r.permit(); err != nil {
		r.refuse(err)
		return
	}
	r.session.out.Push(frames.Reply(&protocol.Reply{ID: &r.in.ID, Time: time.Now().UnixMilli()}))
}

// act runs a request that is just an action of the user.
func act(r *request) {
	action, err := r.in.ActionBy((*actor)(r))
	if err != nil {
		r.refuse(err)
		return
	}
	result, err := r.session.doAsMember(r.in.Room, action)
	switch {
	case errors.Is(err, room.ErrConflict):
		r.refuseConflict(result.Snapshot, err)
	case err != nil:
		r.refuse(err)
	default:
		r.replyCount(result.Snapshot)
	}
}

// actor is a request in the role of its user.
type actor request

func (a *actor) User() string    { return a.session.User }
func (a *actor) Session() string { return a.session.ID }
func (a *actor) Now() int64      { return a.session.shared.Now() }
func (a *actor) Authority() bool { return a.session.viewer(a.in.Room).Authority }

// Claim returns the right to act as host or admin. A token makes an admin; the room checks the host at the commit.
func (a *actor) Claim() room.Claim {
	if a.session.access.isAdmin() {
		return room.Claim{}
	}
	return room.Claim{User: a.session.User, Session: a.session.ID}
}

// RequireAuthority returns an error unless the client's token has the role admin for the request's room.
func (a *actor) RequireAuthority(action string) error {
	switch {
	case a.session.access == nil:
		return room.Forbid("%s is for admins, and a server without a key for tokens has none", action)
	case !a.session.access.isAdmin():
		return room.Forbid("%s is for admins, and the role of the token is another one", action)
	case !a.Authority():
		return room.Forbid("the token does not allow room %s", a.in.Room)
	}
	return nil
}

// doAsMember is do for an action of a member. If the session has lost its place, it waits for the recovery.
func (s *Session) doAsMember(id string, action room.Action) (result room.Result, err error) {
	lacking := s.retryUntilMember(id, func() (room.Snapshot, bool) {
		result, err = s.shared.do(id, action)
		return result.Snapshot, errors.Is(err, room.ErrNotMember)
	})
	return result, cmp.Or(lacking, err)
}

func authenticate(r *request) {
	s := r.session
	if s.access == nil {
		r.refuse(&room.InvalidError{Field: "action",
			Problem: "auth makes no sense here: this server has no key for tokens"})
		return
	}
	identity, err := s.access.renew(r.in.Token)
	if err != nil {
		r.refuse(err)
		return
	}
	if s.User == "" {
		s.User = identity.User
		s.throttle.user = s.shared.Users.acquire(s.User)
		s.conn.Named()
		s.shared.Debug.Write("authenticated", slog.String("user", s.User), slog.String("session", s.ID))
	}
	s.out.Push(frames.Reply(&protocol.Reply{ID: &r.in.ID, User: identity.User, Expires: identity.Expires.Unix()}))
	s.judgeRooms()
}

// permit returns an error unless the client's token allows the request.
func (r *request) permit() error {
	s := r.session
	if s.access == nil {
		return nil
	}
	err := s.access.fresh()
	if err != nil || r.in.Action == protocol.ActionPing || r.in.Action == protocol.ActionMatch { // match checks later
		return err
	}
	return s.access.check(r.in.Action, r.in.Room, s.isMember(r.in.Room))
}
