package client

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// ErrClosed is what every [CloseError] is: the connection has ended.
var ErrClosed = errors.New("connection closed")

var errNoAnswer = errors.New("closed here, and the server did not answer")

// closeWait is how long a server that was told, or that can no longer be told anything, has to
// end the connection before it is cut.
const closeWait = 2 * time.Second

// CloseError says how the connection ended.
type CloseError struct {
	// Code is the close code that the server sent, one of protocol's Close constants or 1000 for
	// a normal end, also in answer to Close. It is 1006 if the connection ended without one.
	Code int
	// Text is the reason the server sent with the code, or else what broke the connection. It may
	// be empty.
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

// Reconnect reports whether connecting again makes sense: to another node or after a moment, since
// the server closes many connections when it restarts. It does not when a newer session of the user
// took over, when the user was not believed, or when the client did what no client should.
func (e *CloseError) Reconnect() bool {
	switch e.Code {
	case protocol.CloseGoingAway, protocol.CloseRestart, protocol.CloseTooSlow, protocol.CloseTooMany,
		websocket.CloseAbnormalClosure, websocket.CloseInternalServerErr:
		return true
	}
	return false
}

// Unwrap returns ErrClosed, and what broke the connection if the server did not close it.
func (e *CloseError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrClosed}
	}
	return []error{ErrClosed, e.cause}
}

// closeError makes a CloseError of what ended the reading. If this side cut the connection, cut
// says why, and the reading only tells that it was cut.
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

// Done returns a channel that is closed when the connection has ended, for whatever reason.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns nil as long as Done is open, and then the [*CloseError] that says why it is not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// Close ends the connection in order: it tells the server, waits a moment for its answer, cuts the
// connection if none comes, and returns when the client's goroutines have ended. Until then the
// callbacks may still be called, so they must not call Close themselves. Requests that wait get
// a [*CloseError]. Closing again, or after the connection has ended, is fine.
func (c *Client) Close() {
	c.closeOnce.Do(func() {
		message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		// If it cannot be sent, there is no answer to wait for either, and hangUp ends that.
		_ = c.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeWait))
		c.hangUp(errNoAnswer)
	})
	c.goroutines.Wait()
}

// hangUp gives what the server has sent, its close frame above all, a moment to be read, then cuts
// the connection for the reason given.
func (c *Client) hangUp(reason error) {
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.mu.Lock()
		c.cut = cmp.Or(c.cut, reason)
		c.mu.Unlock()
		_ = c.conn.Close()
	}
}
