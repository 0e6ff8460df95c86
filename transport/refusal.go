package transport

import (
	"errors"
	"net/http"

	"roomd/room"
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
	{room.ErrDuplicate, protocol.CodeDuplicateUser, ""},
	{room.ErrNotMember, protocol.CodeNotMember, ""},
	{room.ErrBusy, protocol.CodeBusy, ""},
	{room.ErrUnavailable, protocol.CodeUnavailable, "the room's store cannot be reached; nothing was written"},
	{room.ErrClosed, protocol.CodeUnavailable, "this node is shutting down; nothing was written"},
}

// toProtocol turns an error of package room into the one that a client gets. An error of the
// protocol stays as it is.
func toProtocol(err error) *protocol.Error {
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

// ErrorOf returns what a client gets for an error of package room, or of the protocol.
func ErrorOf(err error) *protocol.Error { return toProtocol(err) }

// refuse replies to a request with an error.
func (r *request) refuse(err error) {
	r.out.push(replyFrame(r.refusal(err)))
}

// refusal returns the reply that refuses a request, which counts from then on.
func (r *request) refusal(err error) *protocol.Reply {
	e := toProtocol(err)
	if e.Code == protocol.CodeRoomFull {
		r.server.opts.Trace.refused(LimitMembers)
	}
	r.result = e.Code
	if trouble := r.server.troubles.refused[e.Code]; trouble != nil {
		trouble.Happened(err, "action", r.Action, "room", r.Room, "user", r.user)
	}
	return &protocol.Reply{ID: &r.ID, Room: r.Room, Error: e}
}

// refuseRate replies to a request over the rate, well-formed or not, and ends the connection if
// that is too much, too.
func (r *request) refuseRate(bad *protocol.DecodeError, refusal *protocol.Error, cutOff bool) {
	reply := &protocol.Reply{ID: &r.ID, Room: r.Room, Error: refusal}
	if bad != nil {
		reply = bad.Reply()
		reply.Error = refusal
	}
	r.out.push(replyFrame(reply))
	r.server.troubles.rate.Happened(refusal, "user", r.user)
	if cutOff {
		r.server.opts.Trace.refused(LimitFlood)
		r.end(protocol.CloseTooMany, "too many requests")
	}
}

// retryAfter is the pause that a refused client is asked for, in seconds. It is longer than a
// moment, so that a crowd does not come back at once, and shorter than the grace.
const retryAfter = "5"

// refuse answers a request that does not become a connection.
func refuse(w http.ResponseWriter, status int, e *protocol.Error) {
	if w.Header().Get("Retry-After") == "" && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(protocol.AppendReply(nil, &protocol.Reply{Error: e}), '\n'))
}
