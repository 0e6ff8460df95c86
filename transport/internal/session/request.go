package session

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"
	"time"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

type request struct {
	session *Session
	in      protocol.Request

	subscribed bool            // the request has started the subscription
	said       []protocol.Said // earlier messages for the reply
}

// requestPool reuses requests. Nothing refers to one once its reply is queued.
var requestPool = sync.Pool{New: func() any { return new(request) }}

// ownAction is an action of the session itself. The others are actions of the room, which need auth.Enter.
type ownAction struct {
	run  func(*request)
	use  auth.Use // the token has to allow this use of the room
	free bool     // allowed in any room: the client wants out, or names no room yet
}

var ownActions = map[string]ownAction{
	protocol.ActionJoin:    {run: join},
	protocol.ActionMatch:   {run: match, free: true}, // Wanted.Allow limits the rooms
	protocol.ActionLeave:   {run: leave, free: true},
	protocol.ActionUsers:   {run: users, use: auth.Watch}, // mayWatch checks more
	protocol.ActionWatch:   {run: watch, use: auth.Watch},
	protocol.ActionUnwatch: {run: unwatch, free: true},
}

func (r *request) run() {
	r.hold()
	own := ownActions[r.in.Action]
	switch err := r.permit(own); {
	case err != nil:
		r.refuse(err)
	case own.run != nil:
		own.run(r)
	default:
		act(r)
	}
	r.release()
}

// permit returns an error unless the client's token allows the request. A member may go on with an action that Stays,
// whatever a newer token says.
func (r *request) permit(own ownAction) error {
	s := r.session
	if err := s.access.fresh(); err != nil || own.free || s.access == nil || room.CheckID(r.in.Room) != nil {
		return err // an invalid room is refused elsewhere
	}
	member, identity := s.isMember(r.in.Room), s.access.identity()
	if member && protocol.ActionNamed(r.in.Action).Stays {
		return nil
	}
	return identity.May(own.use, r.in.Room, member)
}

// hold holds the room's events until release.
func (r *request) hold() {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = r.in.Room
	if p := s.presences[r.in.Room]; p != nil {
		p.gateLocked()
	}
}

// release releases the room's events, which the reader writes with the reply, and follows moves that came meanwhile.
func (r *request) release() {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	p, follow := s.presences[s.serving], s.toFollow
	s.serving, s.toFollow = "", nil
	if p != nil {
		p.settleLocked()
	}
	for _, id := range follow {
		s.followLocked(id)
	}
}

// ping answers without asking Redis: it shows only that the connection works.
func ping(r *request) {
	if err := r.session.access.fresh(); err != nil {
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

// push queues a reply in its place among the room's events. at is the version that the reply shows; listed says that
// it lists the room. If the membership is not paused any more, push first ends the pause, so that earlier events come
// first.
func (r *request) push(at room.Position, reply *protocol.Reply, listed bool) {
	frame := frames.Reply(reply)
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presences[r.in.Room]
	if p == nil {
		s.out.PushLocked(frame)
		return
	}
	if !p.membership.Status.IsPaused() {
		p.gateLocked()
	}
	if listed {
		p.queue.ReplyList(at, frame)
	} else {
		p.queue.Reply(at, frame, p.deferred)
	}
}

func positionOf(now room.Snapshot) room.Position {
	return room.Position{Epoch: now.Epoch, Version: now.Version}
}

func (r *request) replyCount(now room.Snapshot) {
	r.push(positionOf(now), r.countReply(now), false)
}

// replyList queues a reply with the room's list, unless brief. Only events after the list's version follow.
func (r *request) replyList(now room.Snapshot, seat *int, brief bool) {
	reply := r.countReply(now)
	if reply.Seat = seat; !brief {
		reply.State = frames.State(now, r.session.viewer(r.in.Room), r.session.shared.Now)
	}
	reply.Said = r.said
	r.push(positionOf(now), reply, true)
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

// ErrorOf turns err into an error of the protocol, unless it is one. An error not in refusals gets CodeInternal.
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
	r.push(room.Position{}, r.refusal(err), false)
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

// refuseRate refuses a request over the rate; bad is nil for a well-formed one. cutOff ends the connection, too.
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
	r.push(positionOf(now), reply, false)
}
