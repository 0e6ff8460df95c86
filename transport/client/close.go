package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// ErrClosed says that the connection has ended. Every [CloseError] is one.
var ErrClosed = errors.New("connection closed")

// ErrUnauthorized says that the server asks for a token that it accepts: of [Dial], of a request,
// or of the [CloseError] after the token has expired. A client may connect again with a new token.
var ErrUnauthorized = protocol.ErrUnauthorized

var errNoAnswer = errors.New("closed here, and the server did not answer")

// closeWait is how long the server has to end the connection after a close frame, or after a
// failed write. Then this side closes the socket.
const closeWait = 2 * time.Second

// CloseError says how the connection ended.
type CloseError struct {
	// Code is the close code that the server sent, one of protocol's Close constants or 1000 for
	// a normal end, also in answer to Close. It is 1006 if the connection ended without one.
	Code int
	// Text is the reason that the server sent with the code, or what broke the connection. It may be
	// empty.
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

// Reconnect reports whether a client should connect again: to another node, or after a random
// pause, because a node that restarts closes many connections at once. It should not if a newer
// session of the user took over, or if the client sent what the protocol does not allow. If the
// error is [ErrUnauthorized], it makes sense only with a new token, and Reconnect reports false.
func (e *CloseError) Reconnect() bool {
	switch e.Code {
	case websocket.CloseGoingAway, protocol.CloseRestart, protocol.CloseTooSlow,
		websocket.CloseAbnormalClosure, websocket.CloseInternalServerErr:
		return true
	}
	return false
}

// Unwrap returns ErrClosed; ErrUnauthorized, if the server closed with that code; and what broke the
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

// closeError makes a CloseError of the error that ended the reading. If this side closed the
// socket, cut says why, and the reading error only says that it was closed.
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
