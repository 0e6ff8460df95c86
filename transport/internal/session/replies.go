package session

import (
	"cmp"
	"errors"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

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
		reply.Settings, reply.List = frames.Settings(now.Settings), frames.List(now)
		reply.Data = protocol.JSON(now.Data)
		reply.Host = now.Host()
		reply.Private = frames.Private(now, r.session.viewer(r.in.Room))
		reply.Timers = protocol.TimersOf(now.Timers(), r.session.shared.Now())
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
	return &protocol.Reply{ID: &r.in.ID, Room: r.in.Room, Epoch: now.Epoch, Version: now.Version, Count: now.Count()}
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
	if gone, is := errors.AsType[*room.GoneError](err); is {
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
