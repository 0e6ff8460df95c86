package room

import (
	"errors"
	"fmt"
)

// Action is what one user does in a room through one session, or what somebody with authority over the
// room does. It is one of the structs that the constants of [Kind] name.
type Action interface {
	// kind names the action. It is constant.
	kind() Kind

	// subject returns whom the action is about, "" if that is nobody in particular, and whether
	// the action has to be alone in its commit.
	subject() (user string, alone bool)

	// check returns the action with its names and data in their normal form, nil if they are so already, or
	// an InvalidError.
	check(rules Rules) (Action, error)

	// apply does it to a room, and returns the seat that it was about. On an error, what it did is undone.
	apply(r *Room, rules Rules, by Origin) (seat int, err error)
}

// KindOf returns what an action does, "" for nil.
func KindOf(a Action) Kind {
	if a == nil {
		return ""
	}
	return a.kind()
}

// Subject returns whom an action is about, "" if that is nobody in particular. Alone says that it may do
// something to several users, or to one who has not asked for it. Such an action shares its commit with
// no other: a user's answer shows the room after the commit, and so with what the user did.
func Subject(a Action) (user string, alone bool) { return a.subject() }

// Check returns the action with its names and data in their normal form, or an [InvalidError] that names
// the field which cannot be used. It refuses nil, and what only nodes do.
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

// checkSession returns the normal form of the user whose action it is.
func checkSession(user, session string) (normal string, err error) {
	if normal, err = ParseUser(user); err != nil {
		return "", err
	}
	return normal, checkSessionID(session)
}

// checkActor is checkSession for an action that somebody with authority does, too: then both are empty.
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

// Expect is the version that an action builds on. The zero value expects nothing.
type Expect struct {
	given   bool
	epoch   string
	version uint64
}

// ExpectVersion expects a version, and that epoch of it if one is given.
func ExpectVersion(epoch string, version uint64) Expect { return Expect{true, epoch, version} }

// inEpoch reports whether the room is in the epoch that was given, if one was, and stays in it: the next commit of a
// room that may have lost some begins another one.
func (e Expect) inEpoch(r *Room) bool {
	return e.epoch == "" || e.epoch == r.Epoch && !r.Renewed()
}

// checkRoom fails with ErrConflict unless the room is at the version.
func (e Expect) checkRoom(r *Room) error {
	if !e.given || e.version == r.Version && len(r.updates) == 0 && e.inEpoch(r) {
		return nil
	}
	return Refuse(ErrConflict, "room %s is not at version %d any more", r.ID, e.version)
}

// checkData fails with ErrConflict if data has changed since the version. It was last set at version set.
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

// Origin says who runs an action, and when.
type Origin struct {
	Node string // under which the sessions are members
	At   int64  // in ms since 1970, by that node's clock
}

// Result is what an action came to.
type Result struct {
	Seat     int    // taken, kept or freed
	Node     string // the name under which this node did it
	Snapshot        // the room right after the commit, also one that refused the action
}

// Apply runs one action by the rules, on behalf of by, and returns the seat it was about.
// On an error ([ErrNotMember], [ErrDuplicate], [ErrRoomClosed], [ErrBanned], [ErrForbidden],
// [ErrConflict], [ErrInvalid], or that of Rules.Seating) the room is as it was.
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
		_, prepares := a.(SetData) // before anybody has joined
		defaults.Default = !prepares
		r.updateState(Update{Type: kindDefaults, Detail: &Detail{Settings: &defaults}})
	}
	return seat, nil
}

func absent(r *Room, user string) error {
	return Refuse(ErrNotMember, "%s is not in room %s", user, r.ID)
}

// supplanted is the reason where another session sits, and not only a reservation for whichever joins first.
var supplanted = errors.Join(ErrNotMember, ErrDuplicate)

func elsewhere(r *Room, user string, m Member) error {
	reason := supplanted
	if m.Reserved() {
		reason = ErrNotMember
	}
	return Refuse(reason, "%s is in room %s with another session", user, r.ID)
}
