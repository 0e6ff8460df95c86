package protocol

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"roomd/room"
)

// Codes of an [Error]. Programs decide by the code; the message is for people.
const (
	CodeBadRequest    = "bad_request"    // the frame or a field in it is wrong; nothing was done
	CodeUnknownAction = "unknown_action" // this server knows no such action
	CodeUnauthorized  = "unauthorized"   // the token is missing, or not valid
	// the token or the room's rules forbid it, or pages of this origin may not connect
	CodeForbidden     = "forbidden"
	CodeRoomFull      = "room_full"      // every seat is taken
	CodeClosed        = "closed"         // the room lets nobody in
	CodeBanned        = "banned"         // an admin or the host keeps the user out of the room for now
	CodeConflict      = "conflict"       // the room, or the data to be set, has changed since the expected version
	CodeSeatTaken     = "seat_taken"     // the asked-for seat is taken
	CodeDuplicateUser = "duplicate_user" // the user is in the room by another session
	CodeNotMember     = "not_member"     // the user is not in the room
	// too many requests, or connections from this address; the message may say how long to wait
	CodeRateLimited = "rate_limited"
	CodeTooLarge    = "too_large"   // the frame is too long; the connection is closed
	CodeBusy        = "busy"        // the wait for the room's lock ran out; nothing was done
	CodeUnavailable = "unavailable" // the node is full or stops, or cannot reach the store; nothing was written
	CodeUnknown     = "unknown"     // it may or may not have been written: ask for users
	CodeInternal    = "internal"    // a fault in the server
)

// One error per code, for comparing: errors.Is(err, protocol.ErrRoomFull) is true for every [Error] with that code.
// Do not change them; [NewError] makes an error to send.
var (
	ErrBadRequest    = NewError(CodeBadRequest, "")
	ErrUnknownAction = NewError(CodeUnknownAction, "")
	ErrUnauthorized  = NewError(CodeUnauthorized, "")
	ErrForbidden     = NewError(CodeForbidden, "")
	ErrRoomFull      = NewError(CodeRoomFull, "")
	ErrClosed        = NewError(CodeClosed, "")
	ErrBanned        = NewError(CodeBanned, "")
	ErrConflict      = NewError(CodeConflict, "")
	ErrSeatTaken     = NewError(CodeSeatTaken, "")
	ErrDuplicateUser = NewError(CodeDuplicateUser, "")
	ErrNotMember     = NewError(CodeNotMember, "")
	ErrRateLimited   = NewError(CodeRateLimited, "")
	ErrTooLarge      = NewError(CodeTooLarge, "")
	ErrBusy          = NewError(CodeBusy, "")
	ErrUnavailable   = NewError(CodeUnavailable, "")
	ErrUnknown       = NewError(CodeUnknown, "")
	ErrInternal      = NewError(CodeInternal, "")
)

// Error is the field "error" of a refusal, in a reply or by HTTP. The zero value is not a valid error.
type Error struct {
	// Code is one of the Code constants, or an unknown one of a newer server.
	Code string `json:"code"`
	// Message explains the fault to a person, and names the field or the room.
	Message string `json:"message"`
	// Retry says whether the same request may succeed later.
	Retry bool `json:"retry"`
}

// maxMessage bounds a message, in bytes: it can repeat a client's text.
const maxMessage = 512

// NewError returns an error with a code, a message made as by [fmt.Sprintf], and Retry set by the code. Bytes of the
// message that are not UTF-8 become U+FFFD, and bytes beyond 512 are cut.
func NewError(code, format string, args ...any) *Error {
	message := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	if len(message) > maxMessage {
		end := maxMessage - len("…")
		for !utf8.RuneStart(message[end]) {
			end--
		}
		message = message[:end] + "…"
	}
	return &Error{Code: code, Message: message, Retry: retryable(code)}
}

// Error returns code and message in one line.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Code + ": " + e.Message
}

// Is reports whether target is an [Error] with the same code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other != nil && other.Code == e.Code
}

// retryable reports whether the same request may succeed soon. CodeDuplicateUser is not retryable: the other session
// may stay for hours. (A client that reconnects retries it for a while all the same. The other session may be its own
// earlier one, until the server notices that the network broke.) Nor is CodeUnknown retryable: the action may have
// been done, so a client asks for the users first.
func retryable(code string) bool {
	return code == CodeRateLimited || code == CodeBusy || code == CodeUnavailable
}

// Codes returns the Code constants.
func Codes() []string {
	return []string{
		CodeBadRequest, CodeUnknownAction, CodeUnauthorized, CodeForbidden, CodeRoomFull, CodeClosed, CodeBanned,
		CodeConflict, CodeSeatTaken, CodeDuplicateUser, CodeNotMember, CodeRateLimited, CodeTooLarge, CodeBusy,
		CodeUnavailable, CodeUnknown, CodeInternal,
	}
}

// Events returns the Event constants.
func Events() []string {
	return []string{EventChanges, EventSnapshot, EventLost, EventUnwatched, EventNode}
}

// Changes returns the Change constants.
func Changes() (all []string) {
	for _, kind := range room.ChangeKinds {
		all = append(all, string(kind))
	}
	return all
}

// Reasons returns the Reason constants.
func Reasons() []string {
	return []string{ReasonLeft, ReasonTimeout, ReasonNode, ReasonKicked, ReasonClosed, ReasonMoved}
}

// CloseCodes returns the Close constants.
func CloseCodes() []int {
	return []int{
		CloseBroken, CloseNotText, CloseNotUTF8, ClosePolicy, CloseTooBig, CloseRestart,
		CloseReplaced, CloseUnauthorized, CloseTooSlow, CloseTooMany,
	}
}
