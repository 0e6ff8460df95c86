package room

import "fmt"

// Kind says what an Action, a Change or an Update does.
type Kind string

// What can happen to a member.
const (
	KindJoin  Kind = "join"
	KindLeave Kind = "leave"
	// KindReplace: another session, or the same one on another node, speaks for the
	// member. It is in Updates only: players do not see it.
	KindReplace Kind = "replace"
	// KindAway: the member's connection is lost, and the seat is kept for a while.
	KindAway Kind = "away"
	// KindBack: a session speaks again for a member who was away.
	KindBack Kind = "back"
	// KindMember: the member has other data, or is ready, or is not ready any more.
	KindMember Kind = "member"
)

// Reason says why a member has left.
type Reason string

// The reasons of a KindLeave.
const (
	ReasonLeft    Reason = "left"    // the user wanted to
	ReasonTimeout Reason = "timeout" // the user was away for longer than the grace
	ReasonNode    Reason = "node"    // so was the user's node
	ReasonKicked  Reason = "kicked"  // who has authority over the room threw the user out
	ReasonClosed  Reason = "closed"  // the room was closed
	ReasonMoved   Reason = "moved"   // the user was taken to another room
)

// What can happen to a room.
const (
	// KindSettings: the room has other settings.
	KindSettings Kind = "settings"
	// KindData: the room has other data.
	KindData Kind = "data"
	// KindMessage: somebody said something. It changes nothing.
	KindMessage Kind = "message"
	// KindDefaults: a room without settings got those of the Rules. It is in Updates only; players
	// see it as KindSettings.
	KindDefaults Kind = "defaults"
	// KindBan: a user may not come in for a while, or may again. It is in Updates only.
	KindBan Kind = "ban"
)

// What else an action can be.
const (
	KindKick    Kind = "kick"
	KindShut    Kind = "shut"
	KindReserve Kind = "reserve"
	KindRelease Kind = "release"
	KindMove    Kind = "move" // of two rooms at once; see package coordinator

	kindReady  Kind = "ready"
	kindDetach Kind = "detach"
	kindKeep   Kind = "keep"
	kindEvict  Kind = "evict"
	kindRenew  Kind = "renew"
)

// AnySeat is the seat of a join that does not ask for a certain one.
const AnySeat = -1

// Action is what one user does in a room through one session, or what somebody with authority
// over the room does. Make one with [Join], [Leave], [Ready], [SetMemberData], [SetData], [Say],
// [Keep] or [Detach]; or with [Configure], [Kick], [Unban], [Shut], [Reserve] or [Release]. The
// zero value is refused.
type Action struct {
	kind    Kind
	user    string
	session string
	seat    int // AnySeat, or the one asked for

	reason  Reason // of a leave
	again   bool   // a join that yields to any other session of the user
	follows bool   // one that yields to any other session of the user that is connected
	dead    string // a node whose sessions are known to be dead; empty: none

	more *more // what most actions do not have; nil for none
}

// more is what few actions have. It does not change once an action has it.
type more struct {
	settings Settings
	users    []string // of a group
	data     string   // JSON, "" for none
	message  Message
	ready    bool
	text     string // why somebody is kicked
	until    int64  // of a ban, in ms since 1970
	target   string // the room to which users are moved

	authority bool // over the room, in spite of a user

	expect    bool   // the action is only for a room, or data, at this version
	version   uint64 // or unchanged since then
	unchanged bool   // it is the data that may not have changed
	epoch     string // the epoch that is expected, "" for any; or that a renew ends

	node string // whose members an evict removes
}

// with returns the action with a part of more that edit has set.
func (a Action) with(edit func(m *more)) Action {
	var m more
	if a.more != nil {
		m = *a.more
	}
	edit(&m)
	a.more = &m
	return a
}

// Join lets user into a room, on the lowest free seat, and makes session the one
// that speaks for the user. Joining again keeps the seat.
func Join(user, session string) Action {
	return Action{kind: KindJoin, user: user, session: session, seat: AnySeat}
}

// At asks for one seat, counted from 0, instead of the lowest free one.
func (a Action) At(seat int) Action {
	a.seat = seat
	return a
}

// Again turns a join into one that brings back a session which has lost its place. If the
// user has come with another session meanwhile, that one stays, whatever the Rules say,
// and the join fails with [ErrDuplicate].
func (a Action) Again() Action {
	a.again = true
	return a
}

// Following turns a join into one of a session whose user was moved into the room. It takes the seat
// over, unless the user is there with another session that is connected: then it fails with
// [ErrDuplicate].
func (a Action) Following() Action {
	a.again, a.follows = true, true
	return a
}

// Keep moves a session that still speaks for user to its node's present name. It fails
// with [ErrDuplicate] if another session speaks for user, and with [ErrNotMember] if user
// is not in the room: it brings nobody back.
func Keep(user, session string) Action {
	return Action{kind: kindKeep, user: user, session: session, seat: AnySeat}
}

// Leave takes user out of a room, but only if session is still the one that
// speaks for the user there.
func Leave(user, session string) Action {
	return Action{kind: KindLeave, user: user, session: session, seat: AnySeat, reason: ReasonLeft}
}

// Because gives a leave another reason than ReasonLeft.
func (a Action) Because(reason Reason) Action {
	a.reason = reason
	return a
}

// Detach records that session is disconnected and may come back. Its user is away and keeps the seat,
// and any session of the user may take it over, also where Rules say that a live one
// stays. A Leave of the session still works.
func Detach(user, session string) Action {
	return Action{kind: kindDetach, user: user, session: session, seat: AnySeat}
}

// Evict takes all members of a dead node out of a room. [Room.Apply] returns how many
// they were instead of a seat. Clients cannot ask for it: [Action.Check] refuses it.
func Evict(node string) Action {
	return Action{kind: kindEvict, seat: AnySeat}.with(func(m *more) { m.node = node })
}

// Renew begins a new epoch if the room is still in this one. Commits of it were lost, and
// their versions will come again with other content. [Action.Check] refuses it.
func Renew(epoch string) Action {
	return Action{kind: kindRenew, seat: AnySeat}.with(func(m *more) { m.epoch = epoch })
}

// IfVersion makes the action fail with [ErrConflict] unless the room is at that version, and in
// that epoch if one is given.
func (a Action) IfVersion(epoch string, version uint64) Action {
	return a.with(func(m *more) { m.expect, m.unchanged, m.epoch, m.version = true, false, epoch, version })
}

// Unchanged makes a [SetData] or [SetMemberData] fail with [ErrConflict] if that data has changed
// since a version, or if the room is not in that epoch any more. With "" it may be in any. It is
// a compare-and-set: whoever has followed the room up to that version knows what is replaced.
//
// It makes a [Join] fail with a [GoneError] if somebody with authority has taken the user out of
// the room since. Whoever was a member at that version does not undo then what it has missed. The
// room may be in another epoch.
func (a Action) Unchanged(epoch string, version uint64) Action {
	return a.with(func(m *more) { m.expect, m.unchanged, m.epoch, m.version = true, true, epoch, version })
}

// Kind returns what the action does.
func (a Action) Kind() Kind { return a.kind }

// User returns whom the action is about, "" if that is nobody in particular.
func (a Action) User() string { return a.user }

// Alone reports whether the action may do something to several users, or to one who has not asked
// for it. Such an action shares its commit with no other: a user's answer shows the room after the
// commit, and so with what the user did.
func (a Action) Alone() bool {
	switch a.kind {
	case KindKick, KindShut, KindReserve, KindRelease:
		return true
	}
	return false
}

// KnowingDead returns the join for when the node is known to be dead: it may take over from
// sessions of that node also where Rules say that the older session stays. differs says
// whether that can change the outcome.
func (a Action) KnowingDead(node string) (next Action, differs bool) {
	differs = a.kind == KindJoin && !a.again && a.dead != node
	a.dead = node
	return a, differs
}

// Check returns the action with the user's name in its normal form, or an [InvalidError]
// that names the field which cannot be used.
func (a Action) Check(rules Rules) (Action, error) {
	a, err := a.check(rules)
	if err != nil {
		return Action{}, err
	}
	return a, nil
}

func (a Action) check(rules Rules) (_ Action, err error) {
	switch a.kind {
	case KindSettings:
		return a, a.more.settings.check(rules)
	case KindShut:
		return a, nil
	case KindReserve, KindRelease:
		return checkGroup(a)
	case KindKick:
		return checkKick(a)
	case KindJoin, KindLeave, kindDetach, kindKeep, kindReady, KindMember:
		a, err = checkSession(a)
	case KindData, KindMessage:
		if a.user != "" || a.session != "" { // else it is said with authority
			a, err = checkSession(a)
		}
	default:
		return a, &InvalidError{"action", "make it with a function of package room, such as Join"}
	}
	switch {
	case err != nil:
		return a, err
	case a.kind == KindData:
		return checkData(a, rules.Limits.roomData())
	case a.kind == KindMember:
		return checkData(a, rules.Limits.memberData())
	case a.kind == KindMessage:
		return checkMessage(a, rules.Limits.message())
	case a.seat != AnySeat && (a.seat < 0 || a.seat >= rules.most()):
		return a, invalidSeat(a.seat, rules.most())
	}
	return a, nil
}

// checkSession checks whose action it is.
func checkSession(a Action) (_ Action, err error) {
	if a.user, err = ParseUser(a.user); err != nil {
		return a, err
	}
	return a, checkSessionID(a.session)
}

func checkSessionID(id string) error {
	if id == "" || len(id) > maxSession {
		return &InvalidError{"session", fmt.Sprintf("must be 1 to %d bytes long, not %d", maxSession, len(id))}
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
