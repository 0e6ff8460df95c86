package room

import (
	"errors"
	"fmt"
)

// Action changes a room. A user acts through one session; otherwise somebody with authority over the room acts, or a
// node ([Upkeep]). The constants of [Kind] name the structs.
type Action interface {
	// about returns the action's kind, and its Subject.
	about() (kind Kind, user string, alone bool)

	// check returns the action with its names and data in their normal form; nil means that the action is unchanged.
	// It fails with an InvalidError.
	check(rules Rules) (Action, error)

	// apply applies the action, and returns Result.Seat. If it fails, the caller undoes the updates so far.
	apply(r *Room, rules Rules, by Origin) (seat int, err error)
}

// KindOf returns the action's kind, "" for nil.
func KindOf(a Action) Kind {
	if a == nil {
		return ""
	}
	kind, _, _ := a.about()
	return kind
}

// Subject returns the user whom an action is about, "" for nobody in particular. alone says that it may change
// memberships or bans of users who did not ask for it. Such an action gets a commit of its own: each caller's answer
// shows the room after the commit, and must still contain what the caller did.
func Subject(a Action) (user string, alone bool) {
	_, user, alone = a.about()
	return user, alone
}

// Check returns the action with its names and data in their normal form. It fails with an [InvalidError] that names
// the unusable field, also for nil and for actions that only nodes may run.
func Check(a Action, rules Rules) (Action, error) {
	if a == nil {
		return nil, &InvalidError{"action", "must be one of package room, such as Join"}
	}
	switch normal, err := a.check(rules); {
	case err != nil:
		return nil, err
	case normal != nil:
		return normal, nil
	}
	return a, nil
}

// Expect is the version that an action builds on. The zero value expects none.
type Expect struct {
	given   bool
	epoch   string
	version uint64
}

// ExpectVersion expects a version in the given epoch, or in any epoch if epoch is "".
func ExpectVersion(epoch string, version uint64) Expect { return Expect{true, epoch, version} }

// inEpoch reports whether the room's next commit is in the expected epoch, if one is expected. A room that may have
// lost commits begins another epoch.
func (e Expect) inEpoch(r *Room) bool {
	return e.epoch == "" || e.epoch == r.Epoch && !r.Renewed()
}

// checkRoom fails with ErrConflict unless the room is at the expected version, if any, without pending updates.
func (e Expect) checkRoom(r *Room) error {
	if !e.given || e.version == r.Version && len(r.updates) == 0 && e.inEpoch(r) {
		return nil
	}
	return Refuse(ErrConflict, "room %s is not at version %d any more", r.ID, e.version)
}

// checkData fails with ErrConflict if set, the version at which the data was last set, is later than the expected
// version, or if the room is before that version or in another epoch. what names the data.
func (e Expect) checkData(r *Room, set uint64, what string) error {
	switch {
	case !e.given:
	case !e.inEpoch(r):
		return Refuse(ErrConflict, "room %s has begun anew", r.ID)
	case set > e.version:
		return Refuse(ErrConflict, "%s has changed since version %d", what, e.version)
	case e.version > r.Version:
		return Refuse(ErrConflict, "room %s is at version %d, not yet at %d", r.ID, r.Version, e.version)
	}
	return nil
}

// checkPlay is checkData for the room's data and all its timers.
func (e Expect) checkPlay(r *Room) error {
	if err := e.checkData(r, r.state.data.since(), "the data of room "+r.ID); err != nil {
		return err
	}
	return e.checkData(r, r.state.timers.since(), "a timer of room "+r.ID)
}

// Origin is the node that an action runs for, and the time.
type Origin struct {
	Node string // the node of the sessions that become members
	At   int64  // in ms since 1970, by the clock that all nodes share
}

// Result is the result of an action.
type Result struct {
	Seat     int    // taken, kept or freed
	Node     string // the name under which this node ran the action
	Snapshot        // the room right after the commit; set also if the action was refused
}

// Apply runs one action by the rules, and returns the seat that it took, kept or freed, or the number that [Upkeep]
// describes. On an error ([ErrInvalid] and those beside it, or one of Rules.Seating) the room is unchanged.
func (r *Room) Apply(a Action, rules Rules, by Origin) (seat int, err error) {
	before := len(r.updates)
	seat, err = a.apply(r, rules, by)
	if err == nil {
		r.appoint()
	}
	if err == nil && rules.Starter != nil {
		err = start(r, rules, before)
	}
	if err != nil {
		r.undo(before)
		return 0, err
	}
	if !r.state.settled && len(r.updates) > before {
		defaults := rules.defaults()
		_, prepares := a.(SetData) // a SetData may prepare a room before a player begins it
		defaults.Default = !prepares
		r.update(Update{Type: kindDefaults, Detail: &Detail{Settings: &defaults}})
	}
	return seat, nil
}

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

	// errSeating: Seat returned an impossible seat, Start unusable data, or one of them panicked. Nothing was written.
	errSeating = errors.New("the game's rule is faulty")

	// ErrNotMember: the user is not in the room, or has only a reserved seat, or is there by another session: in that
	// case the error is an ErrDuplicate, too. Nothing was written.
	ErrNotMember = errors.New("not a member")

	// ErrDuplicate: another session is the user's active one in the room, and stays. Nothing was written. After a
	// [Join] or [Keep] the [RefusedError] names that session's node.
	ErrDuplicate = errors.New("user is in the room with another session")

	// ErrBusy: the room's lock did not become free in time. Nothing was written, or it was undone.
	ErrBusy = errors.New("room is busy")

	// ErrUnavailable: Redis cannot be reached, or it refuses. Nothing was written.
	ErrUnavailable = errors.New("redis is unavailable")

	// ErrForeign: a key of the room holds something that roomd has not written; the [RefusedError] names it. Nothing
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
	Field   string // as in JSON, such as user or then.kick; or the name of an option
	Problem string
}

func invalid(field, problem string, args ...any) error {
	return &InvalidError{field, fmt.Sprintf(problem, args...)}
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// RefusedError is a refusal by the rules, with a text that players may be shown. The text of an [ErrForeign] is for
// operators: it names the key, its content, and what to do.
type RefusedError struct {
	Reason error  // one of this package's errors, or several joined
	Node   string // of the ErrDuplicate of a Join or Keep: the node of the session that stays
	Gone   Gone   // of a join's ErrConflict: why the user was taken out since the version that it expects; else zero
	text   string
}

func (e *RefusedError) Error() string { return e.text }

// Unwrap returns the Reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// Forbid returns an [ErrForbidden] with that text, which players may be shown.
func Forbid(format string, args ...any) error {
	return Refuse(ErrForbidden, format, args...)
}

// Refuse returns an error that is reason (by errors.Is) and has that text, which players may be shown.
func Refuse(reason error, format string, args ...any) error {
	return &RefusedError{Reason: reason, text: fmt.Sprintf(format, args...)}
}

func absent(r *Room, user string) error {
	return Refuse(ErrNotMember, "%s is not in room %s", user, r.ID)
}

// supplanted is the reason of an error if another session has the seat. A seat that is only reserved is no duplicate.
var supplanted = errors.Join(ErrNotMember, ErrDuplicate)

func elsewhere(r *Room, user string, m Member) error {
	reason := supplanted
	if m.Reserved() {
		reason = ErrNotMember
	}
	return Refuse(reason, "%s is in room %s with another session", user, r.ID)
}

// activeMember returns the user's membership. It fails with ErrNotMember if session is not the active one. A session
// that was marked away, such as when its node had stalled, becomes connected again.
func activeMember(r *Room, user, session string, by Origin) (Member, error) {
	m, ok := r.Member(user)
	switch {
	case !ok:
		return m, absent(r, user)
	case m.Reserved() || m.SessionID() != session:
		return m, elsewhere(r, user, m)
	case m.Detached():
		activate(r, user, session, m, by)
		m, _ = r.Member(user)
	}
	return m, nil
}
