package client

import (
	"errors"
	"fmt"

	"roomd/transport/protocol"
)

// Condition makes a request conditional; it takes one at most. [Expect] returns one.
type Condition struct {
	epoch   string
	version uint64
}

// Expect makes a request conditional on what its sender knew: the epoch and version of a reply, an
// event or a [ConflictError]. Set and SetMember are done only if the data has not been changed
// since that version, and Configure only if the room still has exactly that version. With an
// epoch, the room must still be in it; "" stands for any.
func Expect(epoch string, version uint64) Condition { return Condition{epoch, version} }

// restrict puts the condition, if there is one, into the request.
func restrict(req *protocol.Request, only []Condition) error {
	switch len(only) {
	case 0:
		return nil
	case 1:
		req.Epoch, req.Expect = only[0].epoch, &only[0].version
		return nil
	}
	return errors.New("expect: more than one condition")
}

// ConflictError says that a condition was not met, so that nothing was done, and what there is
// now. It is [protocol.ErrConflict].
type ConflictError struct {
	// Epoch and Version are the room's now.
	Epoch   string
	Version uint64
	// Data is what a set would have replaced; empty if there is none. A Configure has none.
	Data protocol.JSON
	// Err is the server's error.
	Err *protocol.Error
}

// Error returns the text of e.Err.
func (e *ConflictError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *ConflictError) Unwrap() error { return e.Err }

// result returns what a reply says.
func result(reply *protocol.Reply) (*protocol.Reply, error) {
	switch {
	case reply.Error == nil:
		return reply, nil
	case reply.Error.Is(protocol.ErrConflict):
		return nil, &ConflictError{reply.Epoch, reply.Version, reply.Data, reply.Error}
	}
	return nil, reply.Error
}

// failed says which request has failed.
func failed(req *protocol.Request, err error) error {
	if req.Action == protocol.ActionAuth {
		return fmt.Errorf("client: auth: %w", err)
	}
	return fmt.Errorf("client: %s of room %q: %w", req.Action, req.Room, err)
}
