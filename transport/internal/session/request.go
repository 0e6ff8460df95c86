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

// push queues a reply in its place among the room's events.
func (r *request) push(epoch string, version uint64, reply *protocol.Reply) {
	frame := frames.Reply(reply)
	queue, deferred := r.replyQueue()
	if queue != nil {
		queue.Reply(epoch, version, frame, deferred)
	} else {
		r.session.out.Push(frame)
	}
}

func (r *request) replyCount(now room.Snapshot) {
	r.push(now.Epoch, now.Version, r.countReply(now))
}

// replyList queues a reply with the room's list, unless brief. Only events after the list's version follow.
func (r *request) replyList(now room.Snapshot, seat *int, brief bool) {
	reply := r.countReply(now)
	if reply.Seat = seat; !brief {
		reply.State = frames.State(now, r.session.viewer(r.in.Room), r.session.shared.Now)
	}
	reply.Said = r.said
	frame := frames.Reply(reply)
	if queue, _ := r.replyQueue(); queue != nil {
		queue.ReplyList(now.Epoch, now.Version, frame)
	} else {
		r.session.out.Push(frame)
	}
}

func (r *request) countReply(now room.Snapshot) *protocol.Reply {
	return &protocol.Reply{ID: &r.in.ID, Room: r.in.Room, Epoch: now.Epoch, Version: now.Version,
		State: protocol.State{Count: now.Count()}}
}

// refusals map errors of package room to the protocol's.
var refusals = []struct {
	err  error
	code string
	text string // replaces the error's own text, which could name our Redis
}{
	{room.ErrUnknown, protocol.CodeUnknown, "it may or may not have been written; ask for users"}, // may wrap others
	{room.ErrInvalid, protocol.CodeBadRequest, ""},
	{room.ErrFull, protocol.CodeRoomFull, ""},
	{room.ErrSeatTaken, protocol.CodeSeatTaken, ""},
	{room.ErrRoomClosed, protocol.CodeClosed, ""},
	{room.ErrBanned, protocol.CodeBanned, ""},
	{room.ErrConflict, protocol.CodeConflict, ""},
	{room.ErrForbidden, protocol.CodeForbidden, ""},
	{room.ErrNotMember, protocol.CodeNotMember, ""},
	{room.ErrDuplicate, protocol.CodeDuplicateUser, ""},
	{room.ErrNoRoom, protocol.CodeNotMember, ""}, // a room that does not exist has no members
	{room.ErrBusy, protocol.CodeBusy, ""},
	{room.ErrForeign, protocol.CodeInternal, // before ErrUnavailable
		"what Redis keeps under a key of this room, or one that all rooms share, is another program's, " +
			"which an operator has to look after; nothing was written"},
	{room.ErrUnavailable, protocol.CodeUnavailable, "the room's store cannot be reached; nothing was written"},
	{room.ErrClosed, protocol.CodeUnavailable, "this node is shutting down; nothing was written"},
}

// ErrorOf turns an error of package room into the client's error. It returns an error of the protocol as it is.
func ErrorOf(err error) *protocol.Error {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e
	}
	for _, r := range refusals {
		if !errors.Is(err, r.err) {
			continue
		}
		if r.text != "" {
			return protocol.NewError(r.code, "%s", r.text)
		}
		return protocol.NewError(r.code, "%v", err)
	}
	return protocol.NewError(protocol.CodeInternal, "the server failed; nothing was written")
}

func (r *request) refuse(err error) {
	r.push("", 0, r.refusal(err))
}

// refusal returns a reply with an error, and counts it in metrics and logs.
func (r *request) refusal(err error) *protocol.Reply {
	e := ErrorOf(err)
	switch {
	case e.Code == protocol.CodeRoomFull:
		r.session.shared.Refused(LimitMembers)
	case e.Code == protocol.CodeRateLimited && errors.Is(err, room.ErrNoRoom):
		r.session.shared.Refused(LimitNewRooms)
	}
	r.session.outcome = e.Code
	if trouble := r.session.shared.Logs.Refused[e.Code]; trouble != nil {
		trouble.Happened(err, "action", r.in.Action, "room", r.in.Room, "user", r.session.User)
	}
	return &protocol.Reply{ID: &r.in.ID, Room: r.in.Room, Error: e}
}

// refuseRate replies to a request over the rate, well-formed or not. If cutOff, it also ends the connection.
func (r *request) refuseRate(bad *protocol.DecodeError, refusal *protocol.Error, cutOff bool) {
	reply := &protocol.Reply{ID: &r.in.ID, Room: r.in.Room, Error: refusal}
	if bad != nil {
		reply = bad.Reply()
		reply.Error = refusal
	}
	r.session.out.Push(frames.Reply(reply))
	r.session.shared.Logs.Rate.Happened(refusal, "user", r.session.User)
	if cutOff {
		r.session.shared.Refused(LimitFlood)
		r.session.conn.End(protocol.CloseTooMany, "too many requests")
	}
}

// refuseConflict refuses a request whose condition failed, with the current value.
func (r *request) refuseConflict(now room.Snapshot, err error) {
	reply := r.refusal(err)
	reply.Epoch, reply.Version, reply.Data = now.Epoch, now.Version, protocol.JSON(now.Data)
	if refused, is := errors.AsType[*room.RefusedError](err); is && refused.Gone != (room.Gone{}) {
		gone := refused.Gone
		reply.Data, reply.Reason, reply.Text, reply.To = "", string(gone.Reason), gone.Text, gone.Target
	}
	switch user := r.session.User; r.in.Scope {
	case protocol.ScopeMember:
		reply.Data = ""
		for _, o := range now.Users() {
			if o.User == user {
				reply.Data = protocol.JSON(o.Data)
			}
		}
	case protocol.ScopePrivate:
		target, _ := room.ParseUser(cmp.Or(r.in.User, user)) // valid: the action was checked
		reply.Data = protocol.JSON(now.Private(r.session.viewer(r.in.Room))[target])
	}
	r.push(now.Epoch, now.Version, reply)
}
