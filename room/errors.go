package room

import (
	"errors"
	"fmt"
)

// Errors of an action, a read or a watch. Test with errors.Is; the text of the returned error says more.
var (
	// ErrInvalid: the input cannot be used; an [InvalidError] names the field. Nothing was written.
	ErrInvalid = errors.New("invalid input")

	// ErrFull: every seat of the room is taken. Nothing was written.
	ErrFull = errors.New("room is full")

	// ErrSeatTaken: another user has the requested seat. Nothing was written.
	ErrSeatTaken = errors.New("seat is taken")

	// ErrForbidden: the rules do not let the user do that. Nothing was written.
	ErrForbidden = errors.New("not allowed")

	// ErrRoomClosed: the room's settings let nobody in. Nothing was written.
	ErrRoomClosed = errors.New("room is closed")

	// ErrOtherLabels: the room does not have the requested labels. Nothing was written.
	ErrOtherLabels = errors.New("the room has other labels")

	// ErrNoRoom: the room has not begun, and the action may not begin it. Nothing was written.
	ErrNoRoom = errors.New("no such room")

	// ErrBanned: the user may not come into the room for a while. Nothing was written.
	ErrBanned = errors.New("banned from the room")

	// ErrConflict: the room, or the data to be set, has changed since the expected version. Nothing was written.
	ErrConflict = errors.New("the room has changed")

	// errSeating: Rules.Seating returned an impossible seat, or it or Rules.Starter panicked. Nothing was written.
	errSeating = errors.New("the game's rule is faulty")

	// ErrNotMember: the user is not in the room, or with another session (also an ErrDuplicate). Nothing was written.
	ErrNotMember = errors.New("not a member")

	// ErrDuplicate: another live session is the user's active one in the room, and by Rules.Duplicate it stays.
	// Nothing was written. A [DuplicateError] names that session's node.
	ErrDuplicate = errors.New("user is in the room with another session")

	// ErrBusy: the room's lock did not become free in time. Nothing was written, or it was undone.
	ErrBusy = errors.New("room is busy")

	// ErrUnavailable: Redis cannot be reached, or it refuses. Nothing was written.
	ErrUnavailable = errors.New("redis is unavailable")

	// ErrForeign: a key of the room holds something that roomd has not written; a [ForeignError] names it. Nothing
	// was written, and only an operator can help. It comes with ErrUnavailable.
	ErrForeign = errors.New("the key holds something that is not roomd's")

	// ErrUnknown: Redis went away, or the caller gave up, while the action was being written. It may or may not have
	// happened; read the room to find out.
	ErrUnknown = errors.New("outcome is unknown")

	// ErrClosed: the coordinator is closed. Nothing was written.
	ErrClosed = errors.New("coordinator is closed")
)

// InvalidError names an unusable input field. It is an [ErrInvalid].
type InvalidError struct {
	Field   string // room, user, session, seat, capacity or action, or the name of an option
	Problem string
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// DuplicateError is an [ErrDuplicate] that names the other session's node.
type DuplicateError struct {
	Node string // of the session that stays
	text string
}

func (e *DuplicateError) Error() string { return e.text }

// Unwrap returns ErrDuplicate.
func (e *DuplicateError) Unwrap() error { return ErrDuplicate }

// ForeignError is an [ErrForeign]. Its text is for operators: it names the key, its content, and what to do.
type ForeignError struct{ text string }

func (e *ForeignError) Error() string { return e.text }

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

// Foreign returns a [ForeignError] with that text.
func Foreign(format string, args ...any) error {
	return &ForeignError{fmt.Sprintf(format, args...)}
}

type refusal struct {
	reason error
	text   string
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.reason }

// Forbid returns an [ErrForbidden] with that text, which players may be shown.
func Forbid(format string, args ...any) error {
	return &refusal{ErrForbidden, fmt.Sprintf(format, args...)}
}

// Refuse returns an error that is reason (by errors.Is) and has that text, which players may be shown.
func Refuse(reason error, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}
