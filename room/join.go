package room

import "fmt"

// Join lets a user into a room, and makes the session the active one of the user. Joining again keeps
// the seat.
type Join struct {
	User, Session string

	Seat     SeatChoice // for a user who is not in the room; the zero value is the lowest free one
	Mode     JoinMode   // the zero value is that of a new session
	Existing bool       // begin no room: where there is none, fail with ErrNoRoom
	Begin    *Settings  // of the room if it has not begun; else it has to have their labels: see [ErrOtherLabels]
	Yield    bool       // take the seat over from no session that is connected, whatever Rules say: fail with ErrDuplicate

	// Expect is the version at which the user was a member. The join fails with a [GoneError] if somebody
	// with authority has taken the user out of the room since, so that it does not undo what the user has
	// missed. The room may be in another epoch.
	Expect Expect

	dead string // a node whose sessions are known to be dead; "" for none
}

// SeatChoice is the seat that a join asks for. The zero value is any.
type SeatChoice struct{ above int } // the seat and one, so that zero is none

// At asks for one seat, counted from 0, or for any with [AnySeat].
func At(seat int) SeatChoice { return SeatChoice{seat + 1} }

// AnySeat is the seat that a [Seating] is asked for if the join has no choice.
const AnySeat = -1

func (c SeatChoice) seat() int { return c.above - 1 }

// JoinMode says which other sessions of the user a join takes the seat over from.
type JoinMode int

const (
	// joinNew is the join of a new session: [Rules.Duplicate] decides.
	joinNew JoinMode = iota
	// JoinAgain brings back a session which has lost its place, also into a closed room. If the user has
	// come with another session meanwhile, that one stays, and the join fails with [ErrDuplicate].
	JoinAgain
	// JoinMoved is that of a session whose user was moved into the room. It takes the seat over unless the
	// user is there with another session that is connected: then it fails with [ErrDuplicate].
	JoinMoved
)

// KnowingDead returns the join for when a node is known to be dead: it may take over from sessions of that
// node also where Rules say that the older session stays. Differs says whether that can change the
// outcome.
func (a Join) KnowingDead(node string) (next Join, differs bool) {
	differs = a.Mode == joinNew && a.dead != node
	a.dead = node
	return a, differs
}

func (Join) kind() Kind                { return KindJoin }
func (a Join) subject() (string, bool) { return a.User, false }

func (a Join) check(rules Rules) (Action, error) {
	user, err := checkSession(a.User, a.Session)
	switch seat := a.Seat.seat(); {
	case err != nil:
		return nil, err
	case seat < AnySeat || seat >= rules.most():
		return nil, invalidSeat(seat, rules.most())
	}
	if err := a.Begin.checkBegin(rules); err != nil || user == a.User {
		return nil, err
	}
	a.User = user
	return a, nil
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
		return 0, absent(r, a.User) // somebody has taken the user out
	}
	back := a.Mode == JoinAgain
	seat, err := rules.seat(r, a.User, a.Seat.seat(), back)
	if err != nil {
		return 0, err
	}
	u := Update{Type: KindJoin, User: a.User, Seat: seat, Session: a.Session, At: r.members.joinTime(by)}
	if back && r.state.settings.Closed {
		u.Detail = broughtBack
	}
	r.update(by.Node, u)
	return seat, nil
}

// broughtBack is the detail of a join that a closed room lets in, so that the journal tells it from others.
var broughtBack = &Detail{Again: true}

// takesOver reports whether a member's session gives way to that of the join.
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

// checkGone fails with a GoneError if the user was taken out of the room since the version that is expected.
func (a Join) checkGone(r *Room) error {
	if !a.Expect.given {
		return nil
	}
	g, found := r.state.gone.of(a.User)
	if !found || g.Version <= a.Expect.version && (a.Expect.epoch == "" || a.Expect.epoch == r.Epoch) {
		return nil
	}
	switch g.Reason {
	case ReasonMoved:
		return &GoneError{g, fmt.Sprintf("%s was moved from room %s to room %s", a.User, r.ID, g.Target)}
	case reasonClosed:
		return &GoneError{g, fmt.Sprintf("room %s was closed", r.ID)}
	}
	return &GoneError{g, fmt.Sprintf("%s was kicked from room %s", a.User, r.ID)}
}

// Keep moves a session that is still the active one of the user to its node's present name. It fails
// with [ErrDuplicate] if another session is, and with [ErrNotMember] if the user is not in the room, or has
// only a seat there that is reserved for whichever session joins first: it brings nobody back.
type Keep struct{ User, Session string }

func (Keep) kind() Kind                { return kindKeep }
func (a Keep) subject() (string, bool) { return a.User, false }

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

// activate makes a session the active one of a user who is a member, if it is not already.
func activate(r *Room, user, session string, m Member, by Origin) {
	if m.Session != session || m.Node != by.Node {
		kind := kindReplace
		if m.Detached() {
			kind = kindBack
		}
		r.update(by.Node, Update{Type: kind, User: user, Seat: m.Seat, Session: session, Old: m.Session})
	}
}

func duplicate(r *Room, user string, m Member) error {
	return &DuplicateError{m.Node, fmt.Sprintf("%s is in room %s with another session", user, r.ID)}
}
