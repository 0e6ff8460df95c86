package client

import (
	"errors"
	"fmt"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

var (
	// ErrClosed says that the connection has ended. Every [CloseError] is one.
	ErrClosed = errors.New("connection closed")
	// ErrUnauthorized says that the server wants a valid token. It is an error of [Dial] and of requests, and the
	// [CloseError] of a token that has expired is one, too. With a new token another connection is possible.
	ErrUnauthorized = protocol.ErrUnauthorized
	// ErrLeft is the error of a [Room] after the program has left it.
	ErrLeft = errors.New("left the room")
	// ErrUnwatched is the error of a [Room] after the program has stopped watching it.
	ErrUnwatched = errors.New("stopped watching the room")
)

// CloseError says how the connection ended.
type CloseError struct {
	// Code is the server's close code, such as one of protocol's Close constants. 1000 is a normal end, also in answer
	// to Close. It is 1006 if the connection ended without a close frame.
	Code int
	// Text is the server's reason for the code, or the error that broke the connection. It may be empty.
	Text string

	cause error
}

// Error returns code and text in one line.
func (e *CloseError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%v with code %d", ErrClosed, e.Code)
	}
	return fmt.Sprintf("%v with code %d: %s", ErrClosed, e.Code, e.Text)
}

// Unwrap returns ErrClosed; also ErrUnauthorized after [protocol.CloseUnauthorized]; and the error that broke the
// connection, if the server did not close it.
func (e *CloseError) Unwrap() []error {
	switch {
	case e.Code == protocol.CloseUnauthorized:
		return []error{ErrClosed, ErrUnauthorized}
	case e.cause == nil:
		return []error{ErrClosed}
	}
	return []error{ErrClosed, e.cause}
}

// isRestart reports whether the server has closed the connection to restart. It has then answered every request that
// it started.
func isRestart(err error) bool {
	closed, is := errors.AsType[*CloseError](err)
	return is && closed.Code == protocol.CloseRestart
}

// closeError returns the CloseError for read, the error that ended the reading: with the server's code, if there is
// one. Otherwise cut is the reason, if this side closed the socket.
func closeError(read, cut error) *CloseError {
	text := read.Error()
	var sent *websocket.CloseError
	if errors.As(read, &sent) {
		if sent.Code != websocket.CloseAbnormalClosure {
			return &CloseError{Code: sent.Code, Text: sent.Text}
		}
		text = sent.Text
	}
	if cut != nil {
		read, text = cut, cut.Error()
	}
	return &CloseError{Code: websocket.CloseAbnormalClosure, Text: text, cause: read}
}

// LostError says that the client is no longer a member of a room, although it did not leave; or that the server does
// not let it watch the room any more.
type LostError struct {
	// Room is the room's id.
	Room string
	// Reason is one of protocol's reasons, such as protocol.ReasonKicked; protocol.LostReplaced if a newer session of
	// the user has taken over the seat; or the error code with which the server refuses a seat after a failure, or
	// the watch.
	Reason string
	// Text explains the reason. It may be empty.
	Text string
	// To is the room in which the user has a seat now, if Reason is protocol.ReasonMoved. [Client.Join] enters it,
	// even if the client was away meanwhile.
	To string
	// Err is the server's error if it refused the client after a reconnect, otherwise nil.
	Err *protocol.Error
}

// Error returns room, reason and text in one line.
func (e *LostError) Error() string {
	text := fmt.Sprintf("lost the seat in room %q: %s", e.Room, e.Reason)
	if e.To != "" {
		text += fmt.Sprintf(" to room %q", e.To)
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Unwrap returns e.Err, if there is one.
func (e *LostError) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return e.Err
}

// ConflictError says that a condition was not met, so that nothing was done. It has the current state. It is
// [protocol.ErrConflict].
type ConflictError struct {
	// Epoch and Version are the room's current ones.
	Epoch   string
	Version uint64
	// Data is the current value of the data to be set; empty if there is none, and for a Configure.
	Data protocol.JSON
	// Err is the server's error.
	Err *protocol.Error
}

// Error returns the text of e.Err.
func (e *ConflictError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *ConflictError) Unwrap() error { return e.Err }
