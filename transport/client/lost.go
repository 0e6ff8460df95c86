package client

import (
	"errors"
	"fmt"

	"roomd/transport/protocol"
)

// ErrLeft is the end of a [Room] that the program has left.
var ErrLeft = errors.New("left the room")

// ErrUnwatched is the end of a [Room] that the program watches no more.
var ErrUnwatched = errors.New("stopped watching the room")

// LostError says that a client is a member of a room no more, although it did not leave.
type LostError struct {
	// Room is the room's id.
	Room string
	// Reason is one of protocol's reasons, such as protocol.ReasonKicked, or the code of the error
	// with which the server refused the client that came back, such as protocol.CodeSeatTaken.
	Reason string
	// Text says why, in words. It may be empty.
	Text string
	// To is, with protocol.ReasonMoved, the room in which the user has a seat now. [Client.Join] takes
	// it, also if the client was away meanwhile.
	To string
	// Err is the server's error, if the client was refused when it came back. Otherwise it is nil.
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

// lostBy makes the error of a refusal to a client that came back.
func lostBy(room string, reply *protocol.Reply) *LostError {
	if reply.Reason != "" {
		return &LostError{Room: room, Reason: reply.Reason, Text: reply.Text, To: reply.To, Err: reply.Error}
	}
	return &LostError{Room: room, Reason: reply.Error.Code, Text: reply.Error.Message, Err: reply.Error}
}
