package protocol

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Codes of an [Error]. Programs decide by the code; the message is for people.
const (
	CodeBadRequest    = "bad_request"    // the frame or a field in it is wrong; nothing was done
	CodeUnknownAction = "unknown_action" // this server knows no such action
	CodeUnauthorized  = "unauthorized"   // the user is not known, or not allowed
	CodeRoomFull      = "room_full"      // every seat is taken
	CodeSeatTaken     = "seat_taken"     // the asked-for seat is taken
	CodeDuplicateUser = "duplicate_user" // the user is in the room by another session
	CodeNotMember     = "not_member"     // the user is not in the room, so cannot leave it
	CodeRateLimited   = "rate_limited"   // too many requests; nothing was done
	CodeBusy          = "busy"           // the wait for the room's lock ran out; nothing was done
	CodeUnavailable   = "unavailable"    // the store cannot be reached; nothing was written
	CodeUnknown       = "unknown"        // it may or may not have been written: ask for users
	CodeInternal      = "internal"       // a fault in the server
)

// One error per code, to compare with: errors.Is(err, protocol.ErrRoomFull) holds for every
// [Error] with that code, whatever its message. They are for comparing only and must not be
// changed; make an error to send with [NewError].
var (
	ErrBadRequest    = NewError(CodeBadRequest, "")
	ErrUnknownAction = NewError(CodeUnknownAction, "")
	ErrUnauthorized  = NewError(CodeUnauthorized, "")
	ErrRoomFull      = NewError(CodeRoomFull, "")
	ErrSeatTaken     = NewError(CodeSeatTaken, "")
	ErrDuplicateUser = NewError(CodeDuplicateUser, "")
	ErrNotMember     = NewError(CodeNotMember, "")
	ErrRateLimited   = NewError(CodeRateLimited, "")
	ErrBusy          = NewError(CodeBusy, "")
	ErrUnavailable   = NewError(CodeUnavailable, "")
	ErrUnknown       = NewError(CodeUnknown, "")
	ErrInternal      = NewError(CodeInternal, "")
)

// Error says why a request was refused. It is the "error" object of a reply, and of the HTTP
// answer to a connection that was not accepted. The zero value is not a valid error.
type Error struct {
	// Code is one of the Code constants, or one this package does not know if the server is newer.
	Code string `json:"code"`
	// Message tells a person what was wrong, naming the field or the room.
	Message string `json:"message"`
	// Retry says whether the same request may succeed later.
	Retry bool `json:"retry"`
}

// maxMessage is how many bytes long a message may be: it can repeat what a client has sent.
const maxMessage = 512

// NewError returns an error with that code, a message made as by [fmt.Sprintf], and Retry as
// [Retryable] has it. Bytes of the message that are not UTF-8 become U+FFFD. What goes beyond 512
// bytes is left out.
func NewError(code, format string, args ...any) *Error {
	message := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	if len(message) > maxMessage {
		end := maxMessage - len("…")
		for !utf8.RuneStart(message[end]) {
			end--
		}
		message = message[:end] + "…"
	}
	return &Error{Code: code, Message: message, Retry: Retryable(code)}
}

// Retryable reports whether a request refused with that code may succeed when it is sent again
// soon, unchanged and without anybody's doing. A full room or a taken seat is for the player to
// decide about. CodeDuplicateUser is retryable because the other session may be the user's own from
// before the network broke, which the server has yet to notice: it does within two ping intervals. CodeUnknown is not among them either: the action may have been done already, so ask
// for the users first. Codes this package does not know are not retryable.
func Retryable(code string) bool {
	switch code {
	case CodeRateLimited, CodeBusy, CodeUnavailable, CodeDuplicateUser:
		return true
	}
	return false
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
