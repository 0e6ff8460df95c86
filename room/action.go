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
)

// Reason says why a member has left.
type Reason string

// The reasons of a KindLeave.
const (
	ReasonLeft    Reason = "left"    // the user wanted to
	ReasonTimeout Reason = "timeout" // the user was away for longer than the grace
	ReasonNode    Reason = "node"    // so was the user's node
)

// What can happen to a room.
const (
	// KindSettings: the room has other settings.
	KindSettings Kind = "settings"
	// kindDefaults: a room without settings got those of the Rules. It is in Updates only.
	kindDefaults Kind = "defaults"
)

// What else an action can be.
const (
	kindDetach Kind = "detach"
	kindKeep   Kind = "keep"
	kindEvict  Kind = "evict"
	kindRenew  Kind = "renew"
)

// AnySeat is the seat of a join that does not ask for a certain one.
const AnySeat = -1

// Action is what one user does in a room through one session, or what is done to the room.
// Make one with [Join], [Leave], [Keep], [Detach] or [Configure]; the zero value is refused.
type Action struct {
	kind    Kind
	user    string
	session string
	seat    int // AnySeat, or the one asked for

	reason Reason // of a leave
	again  bool   // a join that yields to any other session of the user
	dead   string // a node whose sessions are known to be dead; empty: none

	settings Settings
	expect   *uint64 // the version that the room has to be at; nil: any

	node  string // whose members an evict removes
	epoch string // that a renew ends
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
func Evict(node string) Action { return Action{kind: kindEvict, node: node, seat: AnySeat} }

// Renew begins a new epoch if the room is still in this one. Commits of it were lost, and
// their versions will come again with other content. [Action.Check] refuses it.
func Renew(epoch string) Action { return Action{kind: kindRenew, epoch: epoch, seat: AnySeat} }

// IfVersion makes the action fail with [ErrConflict] unless the room is at that version.
func (a Action) IfVersion(version uint64) Action {
	a.expect = &version
	return a
}

// Kind returns what the action does.
func (a Action) Kind() Kind { return a.kind }

// User returns whom the action is about, "" if that is nobody in particular.
func (a Action) User() string { return a.user }

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
	if a.kind == KindSettings {
		return a, a.settings.check(rules)
	}
	user, err := ParseUser(a.user)
	if err != nil {
		return Action{}, err
	}
	a.user = user
	if a.session == "" || len(a.session) > maxSession {
		return Action{}, &InvalidError{"session", fmt.Sprintf("must be 1 to %d bytes long, not %d", maxSession, len(a.session))}
	}
	switch {
	case a.kind != KindJoin && a.kind != KindLeave && a.kind != kindDetach && a.kind != kindKeep:
		return Action{}, &InvalidError{"action", "make it with Join, Leave, Keep, Detach or Configure"}
	case a.seat != AnySeat && (a.seat < 0 || a.seat >= rules.most()):
		return Action{}, invalidSeat(a.seat, rules.most())
	}
	return a, nil
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
