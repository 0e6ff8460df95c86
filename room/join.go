package room

import (
	"cmp"
	"fmt"
)

// Join seats a user, and makes the session the user's active one. Joining again keeps the seat.
type Join struct {
	User, Session string

	Seat     *int      // requested, from 0, for a user who is not in the room; nil or AnySeat requests none
	Mode     JoinMode  // zero is a new session
	Existing bool      // begin no room: if there is none, fail with ErrNoRoom
	Begin    *Settings // for a room that has none; a room with settings must have these labels: [ErrOtherLabels]
	Yield    bool      // never replace a connected session, whatever Rules say: fail with ErrDuplicate

	// Expect is the last version at which the user is known to have been a member. If the user was kicked or moved
	// since, or the room was closed, the join fails with an [ErrConflict] that has a [RefusedError].Gone, even in
	// another epoch: it must not undo a removal that the user missed.
	Expect Expect

	dead string // a node that is known to be dead; "" for none
}

// AnySeat is passed to a [Seating] if the join requests no seat.
const AnySeat = -1

// JoinMode decides which other sessions of the user a join may replace.
type JoinMode int

const (
	// joinNew is the join of a new session: [Rules.Duplicate] decides.
	joinNew JoinMode = iota
	// JoinAgain restores a session that has lost its seat, even in a closed room. It fails with [ErrNotMember] if the
	// user was taken out, and with [ErrDuplicate] if the user has come with another session meanwhile.
	JoinAgain
	// JoinMoved is the join of a session whose user was moved into the room, and takes over the user's seat. It fails
	// with [ErrNotMember] if the user was taken out, and with [ErrDuplicate] if another session is connected there.
	JoinMoved
)

// KnowingDead returns a join that may replace the user's session on node, which is known to be dead, even if Rules or
// Yield forbid it. differs reports whether next can have another outcome than a.
func (a Join) KnowingDead(node string) (next Join, differs bool) {
	differs = a.Mode == joinNew && a.dead != node
	a.dead = node
	return a, differs
}

func (a Join) about() (Kind, string, bool) { return KindJoin, a.User, false }

func (a Join) check(rules Rules) (Action, error) {
	user, err := checkSession(a.User, a.Session)
	switch seat := a.seat(); {
	case err != nil:
		return nil, err
	case seat < AnySeat || seat >= rules.most():
		return nil, invalidSeat(seat, rules.most())
	}
	if a.User == user && a.Begin == nil {
		return nil, nil
	}
	a.User = user
	a.Begin, err = a.Begin.checkBegin(rules)
	return a, err
}

func (a Join) seat() int {
	if a.Seat == nil {
		return AnySeat
	}
	return *a.Seat
}

func (a Join) apply(r *Room, rules Rules, by Origin) (int, error) {
	if m, ok := r.Member(a.User); ok {
		if !a.takesOver(m, rules) {
			return 0, duplicate(r, a.User, m)
		}
		activate(r, a.User, a.Session, m, by)
		return m.Seat, nil
	}
	if a.Existing && !r.begun() {
		return 0, Refuse(ErrNoRoom, "room %s has not begun", r.ID)
	}
	if err := a.Begin.begin(r); err != nil {
		return 0, err
	}
	if err := a.checkGone(r); err != nil {
		return 0, err
	}
	if err := r.state.checkBan(r.ID, a.User, by.At); err != nil {
		return 0, err
	}
	if _, gone := r.state.gone.of(a.User); gone && a.Mode != joinNew {
		return 0, absent(r, a.User) // the user was taken out
	}
	back := a.Mode == JoinAgain
	seat, err := rules.seat(r, a.User, a.seat(), back)
	if err != nil {
		return 0, err
	}
	u := Update{Type: KindJoin, User: a.User, Seat: seat, Session: a.Session, node: by.Node, At: r.members.joinTime(by)}
	if back && r.state.settings.Closed {
		u.Detail = broughtBack
	}
	r.update(u)
	return seat, nil
}

// broughtBack marks an update that undoes effects of a failure, so that the journal tells it from others.
var broughtBack = &Detail{Again: true}

// takesOver reports whether the join makes its session the active one of m, the user's membership.
func (a Join) takesOver(m Member, rules Rules) bool {
	switch {
	case m.SessionID() == a.Session:
		return true
	case a.Mode == JoinMoved:
		return m.Detached()
	case a.Mode == JoinAgain:
		return m.Reserved() // else the member's session is newer, connected or not
	case rules.Duplicate == Replace && !a.Yield, m.Detached():
		return true
	}
	return a.dead != "" && m.Node == a.dead
}

// checkGone fails with ErrConflict if the user was taken out since the expected version.
func (a Join) checkGone(r *Room) error {
	if !a.Expect.given {
		return nil
	}
	g, found := r.state.gone.of(a.User)
	if !found || g.Version <= a.Expect.version && (a.Expect.epoch == "" || a.Expect.epoch == r.Epoch) {
		return nil
	}
	text := fmt.Sprintf("%s was kicked from room %s", a.User, r.ID)
	switch g.Reason {
	case ReasonMoved:
		text = fmt.Sprintf("%s was moved from room %s to room %s", a.User, r.ID, g.Target)
	case reasonClosed:
		text = fmt.Sprintf("room %s was closed", r.ID)
	}
	return &RefusedError{Reason: ErrConflict, Gone: g, text: text}
}

// Keep moves a user's active session to its node's present name. It fails with [ErrDuplicate] if another session is
// active, and with [ErrNotMember] if the user is not in the room, or has only a reserved seat: it restores nobody.
type Keep struct{ User, Session string }

func (a Keep) about() (Kind, string, bool) { return kindKeep, a.User, false }

func (a Keep) check(Rules) (Action, error) {
	user, err := checkSession(a.User, a.Session)
	if err != nil || user == a.User {
		return nil, err
	}
	return Keep{user, a.Session}, nil
}

func (a Keep) apply(r *Room, _ Rules, by Origin) (int, error) {
	m, ok := r.Member(a.User)
	switch {
	case !ok, m.Reserved():
		return 0, absent(r, a.User)
	case m.SessionID() != a.Session:
		return 0, duplicate(r, a.User, m)
	}
	activate(r, a.User, a.Session, m, by)
	return m.Seat, nil
}

// activate makes a session the active one of a member, unless it is already.
func activate(r *Room, user, session string, m Member, by Origin) {
	if m.Session != session || m.Node != by.Node {
		kind := kindReplace
		if m.Detached() {
			kind = kindBack
		}
		r.update(Update{Type: kind, User: user, Seat: m.Seat, Session: session, node: by.Node, Old: m.Session})
	}
}

func duplicate(r *Room, user string, m Member) error {
	return &RefusedError{Reason: ErrDuplicate, Node: m.Node,
		text: fmt.Sprintf("%s is in room %s with another session", user, r.ID)}
}

// Leave removes a user whose active session in the room is Session, or whose seat is reserved for Session. Otherwise it
// fails with [ErrNotMember].
type Leave struct {
	User, Session string

	// Reason is ReasonLeft if empty. ReasonTimeout says that the grace of the session's node is over: then the user stays
	// for that of the settings, if they have one.
	Reason Reason
}

func (a Leave) about() (Kind, string, bool) { return KindLeave, a.User, false }

func (a Leave) check(Rules) (Action, error) {
	user, err := checkSession(a.User, a.Session)
	if err != nil || user == a.User {
		return nil, err
	}
	a.User = user
	return a, nil
}

func (a Leave) apply(r *Room, _ Rules, by Origin) (int, error) {
	m, ok := r.Member(a.User)
	switch {
	case !ok:
		return 0, absent(r, a.User)
	case m.SessionID() != a.Session:
		return 0, elsewhere(r, a.User, m)
	case a.Reason == ReasonTimeout && keeps(r, a.User, m, by):
		return m.Seat, nil
	}
	r.update(Update{Type: KindLeave, User: a.User, Seat: m.Seat, Reason: cmp.Or(a.Reason, ReasonLeft)})
	return m.Seat, nil
}

// Detach records that a session is disconnected and may come back. Its user is away and keeps the seat, which any
// session of the user may take over, whatever Rules say. A [Leave] of the session still works. If the settings have a
// grace, the user leaves when that is over, and at once if it is 0.
type Detach struct{ User, Session string }

func (a Detach) about() (Kind, string, bool) { return kindDetach, a.User, false }

func (a Detach) check(Rules) (Action, error) {
	user, err := checkSession(a.User, a.Session)
	if err != nil || user == a.User {
		return nil, err
	}
	return Detach{user, a.Session}, nil
}

func (a Detach) apply(r *Room, _ Rules, by Origin) (int, error) {
	m, ok := r.Member(a.User)
	switch {
	case !ok:
		return 0, absent(r, a.User)
	case m.Session == a.Session:
		disconnect(r, a.User, m, by)
	case m.SessionID() != a.Session:
		return 0, elsewhere(r, a.User, m)
	}
	return m.Seat, nil
}
