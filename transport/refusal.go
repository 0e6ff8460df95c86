package transport

import (
	"errors"
	"net/http"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

// refusals say what each error of package room becomes in the protocol.
var refusals = []struct {
	err  error
	code string
	text string // in place of the error's own, which could name our Redis
}{
	{room.ErrUnknown, protocol.CodeUnknown, "it may or may not have been written; ask for users"}, // before what it may wrap
	{room.ErrInvalid, protocol.CodeBadRequest, ""},
	{room.ErrFull, protocol.CodeRoomFull, ""},
	{room.ErrSeatTaken, protocol.CodeSeatTaken, ""},
	{room.ErrRoomClosed, protocol.CodeClosed, ""},
	{room.ErrBanned, protocol.CodeBanned, ""},
	{room.ErrConflict, protocol.CodeConflict, ""},
	{room.ErrForbidden, protocol.CodeForbidden, ""},
	{room.ErrNotMember, protocol.CodeNotMember, ""},
	{room.ErrDuplicate, protocol.CodeDuplicateUser, ""},
	{room.ErrNoRoom, protocol.CodeNotMember, ""}, // nobody is, where nothing has begun
	{room.ErrBusy, protocol.CodeBusy, ""},
	{room.ErrForeign, protocol.CodeInternal, "what Redis keeps under a key of this room, or one that all rooms share, is another program's, which an operator has to look after; nothing was written"}, // before ErrUnavailable
	{room.ErrUnavailable, protocol.CodeUnavailable, "the room's store cannot be reached; nothing was written"},
	{room.ErrClosed, protocol.CodeUnavailable, "this node is shutting down; nothing was written"},
}

// ErrorOf turns an error of package room into the one that a client gets. An error of the
// protocol stays as it is.
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

// refuse replies to a request with an error.
func (r *request) refuse(err error) {
	r.push("", 0, r.refusal(err))
}

// refusal returns the reply that refuses a request, which counts from then on.
func (r *request) refusal(err error) *protocol.Reply {
	e := ErrorOf(err)
	switch {
	case e.Code == protocol.CodeRoomFull:
		r.session.server.opts.Trace.refused(LimitMembers)
	case e.Code == protocol.CodeRateLimited && errors.Is(err, room.ErrNoRoom):
		r.session.server.opts.Trace.refused(LimitNewRooms)
	}
	r.session.outcome = e.Code
	if trouble := r.session.server.rateLimitedLogs.refused[e.Code]; trouble != nil {
		trouble.Happened(err, "action", r.in.Action, "room", r.in.Room, "user", r.session.user)
	}
	return &protocol.Reply{ID: &r.in.ID, Room: r.in.Room, Error: e}
}

// refuseRate replies to a request over the rate, well-formed or not, and ends the connection if
// that is too much, too.
func (r *request) refuseRate(bad *protocol.DecodeError, refusal *protocol.Error, cutOff bool) {
	reply := &protocol.Reply{ID: &r.in.ID, Room: r.in.Room, Error: refusal}
	if bad != nil {
		reply = bad.Reply()
		reply.Error = refusal
	}
	r.session.out.Push(frames.Reply(reply))
	r.session.server.rateLimitedLogs.rate.Happened(refusal, "user", r.session.user)
	if cutOff {
		r.session.server.opts.Trace.refused(LimitFlood)
		r.session.end(protocol.CloseTooMany, "too many requests")
	}
}

// retryAfter is the pause that a refused client is asked for, in seconds. It is longer than a
// moment, so that a crowd does not come back at once, and shorter than the grace.
const retryAfter = "5"

// Refuse answers an HTTP request with an error: one that does not become a connection, and what is
// beside /ws.
func Refuse(w http.ResponseWriter, status int, e *protocol.Error) {
	if w.Header().Get("Retry-After") == "" && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(protocol.AppendReply(nil, &protocol.Reply{Error: e}), '\n'))
}
