package room

import (
	"errors"
	"fmt"
)

// Action is done to a room by one user through one session, or by somebody with authority over the room. Each
// constant of [Kind] for an action names its struct.
type Action interface {
	// kind names the action; it is constant.
	kind() Kind

	// subject returns the user whom the action is about, "" for nobody in particular, and whether it must be alone in
	// its commit.
	subject() (user string, alone bool)

	// check returns the action with its names and data in their normal form, nil if they are so already, or an
	// InvalidError.
	check(rules Rules) (Action, error)

	// apply applies the action, and returns the seat it was about. On an error the caller undoes its updates.
	apply(r *Room, rules Rules, by Origin) (seat int, err error)
}

// KindOf returns the action's kind, "" for nil.
func KindOf(a Action) Kind {
	if a == nil {
		return ""
	}
	return a.kind()
}

// Subject returns the user whom an action is about, "" for nobody in particular. alone means that the action may
// affect several users, or one who has not asked for it. It then shares its commit with no other action, because a
// user's answer shows the room after the commit, and must still contain what the user did.
func Subject(a Action) (user string, alone bool) { return a.subject() }

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

// checkSession returns the normal form of the name of the user who acts.
func checkSession(user, session string) (normal string, err error) {
	if normal, err = ParseUser(user); err != nil {
		return "", err
	}
	return normal, checkSessionID(session)
}

// checkActor is checkSession for actions that are also open to authority: then both are empty.
func checkActor(user, session string) (normal string, err error) {
	if user == "" && session == "" {
		return "", nil
	}
	return checkSession(user, session)
}

func checkSessionID(id string) error {
	if id == "" || len(id) > maxSession {
		return &InvalidError{"session", fmt.Sprintf("must be 1 to %d bytes long, not %d", maxSession, len(id))}
	}
	return nil
}

// Expect is the version that an action builds on. The zero value expects none.
type Expect struct {
	given   bool
	epoch   string
	version uint64
}

// ExpectVersion expects a version in the given epoch, or in any epoch if epoch is "".
func ExpectVersion(epoch string, version uint64) Expect { return Expect{true, epoch, version} }

// inEpoch reports whether the room is in the expected epoch, if any, and stays in it: the next commit of a room that
// may have lost commits begins another epoch.
func (e Expect) inEpoch(r *Room) bool {
	return e.epoch == "" || e.epoch == r.Epoch && !r.Renewed()
}

// checkRoom fails with ErrConflict unless the room is at the expected version.
func (e Expect) checkRoom(r *Room) error {
	if !e.given || e.version == r.Version && len(r.updates) == 0 && e.inEpoch(r) {
		return nil
	}
	return Refuse(ErrConflict, "room %s is not at version %d any more", r.ID, e.version)
}

// checkData fails with ErrConflict if data, last set at version set, has changed since the expected version.
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

// Origin says for which node, and when, an action runs.
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

// Apply runs one action by the rules, and returns its seat. On an error ([ErrNotMember], [ErrDuplicate],
// [ErrRoomClosed], [ErrBanned], [ErrForbidden], [ErrConflict], [ErrInvalid], or one of Rules.Seating) the room is
// unchanged.
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
		r.updateState(Update{Type: kindDefaults, Detail: &Detail{Settings: &defaults}})
	}
	return seat, nil
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
