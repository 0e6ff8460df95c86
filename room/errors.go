package room

import "errors"

// What an action, a read or a watch can fail with. Test with errors.Is; the text
// of the returned error says more.
var (
	// ErrInvalid: the input cannot be used; an [InvalidError] names the field.
	// Nothing was written.
	ErrInvalid = errors.New("invalid input")

	// ErrFull: every seat of the room is taken. Nothing was written.
	ErrFull = errors.New("room is full")

	// ErrSeatTaken: another user sits on the seat asked for. Nothing was written.
	ErrSeatTaken = errors.New("seat is taken")

	// ErrNotMember: the user is not in the room, or another session speaks for
	// the user there. Nothing was written.
	ErrNotMember = errors.New("not a member")

	// ErrDuplicate: another live session speaks for the user in the room, and
	// Rules.Duplicate says that it stays. Nothing was written.
	ErrDuplicate = errors.New("user is in the room with another session")

	// ErrBusy: the room's lock could not be had within Options.LockWait.
	// Nothing was written.
	ErrBusy = errors.New("room is busy")

	// ErrUnavailable: Redis cannot be reached, or it refuses. Nothing was
	// written.
	ErrUnavailable = errors.New("redis is unavailable")

	// ErrUnknown: Redis went away, or the caller gave up, while the action was
	// being written. It may or may not have happened; reading the room tells.
	ErrUnknown = errors.New("outcome is unknown")

	// ErrClosed: the coordinator is closed. Nothing was written.
	ErrClosed = errors.New("coordinator is closed")
)

// InvalidError names the input field that cannot be used. It is an [ErrInvalid].
type InvalidError struct {
	Field   string // room, user, session, seat or action, or the name of an option
	Problem string
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// duplicate is an ErrDuplicate that names the node of the session that stays.
type duplicate struct {
	refusal
	node string
}

// refusal is a sentinel with a text of its own, one that can be shown to players.
type refusal struct {
	reason error
	text   string
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.reason }
