package room

import "fmt"

// Kind says what an Action or a Change does.
type Kind string

// The two things that can happen to a membership.
const (
	KindJoin  Kind = "join"
	KindLeave Kind = "leave"
)

// What else an action can be.
const (
	kindDetach Kind = "detach"
	kindKeep   Kind = "keep"
	kindEvict  Kind = "evict"
	kindRenew  Kind = "renew"
)

// anySeat is the seat of a join that takes the lowest free one.
const anySeat = -1

// Action is what one user does in a room through one session. Make one with [Join],
// [Leave], [Keep] or [Detach]; the zero value is refused.
type Action struct {
	kind    Kind
	user    string
	session string
	seat    int // anySeat, or the one asked for

	again bool   // joins only where the user has no other session
	dead  string // a node whose sessions do not live any more; empty: none is known

	node string // of the coordinator that runs it
	at   int64  // when it did, in ms since 1970
}

// Join lets user into a room, on the lowest free seat, and makes session the one
// that speaks for the user. Joining again keeps the seat.
func Join(user, session string) Action {
	return Action{kind: KindJoin, user: user, session: session, seat: anySeat}
}

// At asks for one seat, counted from 0, instead of the lowest free one.
func (a Action) At(seat int) Action {
	a.seat = seat
	return a
}

// Again makes of a join one that brings a session back which has lost its place: if the
// user has come with another session meanwhile that one stays, whatever the Rules say,
// and the join fails with [ErrDuplicate].
func (a Action) Again() Action {
	a.again = true
	return a
}

// Keep has a session that still speaks for user take on the name that its node has now.
// It fails with [ErrDuplicate] if another session speaks for user, and with
// [ErrNotMember] if user is not in the room; it brings nobody back.
func Keep(user, session string) Action {
	return Action{kind: kindKeep, user: user, session: session, seat: anySeat}
}

// Leave takes user out of a room, but only if session is still the one that
// speaks for the user there.
func Leave(user, session string) Action {
	return Action{kind: KindLeave, user: user, session: session, seat: anySeat}
}

// Detach says that session is not there any more, but may come back. Its user keeps
// the seat, and any session of the user may take it over, also where Rules say that
// a live one stays. A Leave of the session still works.
func Detach(user, session string) Action {
	return Action{kind: kindDetach, user: user, session: session, seat: anySeat}
}

// evict takes all members of a node that has died out of a room.
func evict(node string) Action { return Action{kind: kindEvict, node: node, seat: anySeat} }

// renew begins a new epoch if the room is still in this one, but at an older version:
// a failover has lost commits, and what the lost versions were will come again.
func renew(epoch string, version uint64) Action {
	return Action{kind: kindRenew, session: epoch, at: int64(version), seat: anySeat}
}

// check brings the user's name into its normal form, or says which field of the
// action cannot be used.
func (a *Action) check(rules Rules) error {
	user, err := ParseUser(a.user)
	if err != nil {
		return err
	}
	a.user = user
	if a.session == "" || len(a.session) > maxSession {
		return &InvalidError{"session", fmt.Sprintf("must be 1 to %d bytes long, not %d", maxSession, len(a.session))}
	}
	switch {
	case a.kind != KindJoin && a.kind != KindLeave && a.kind != kindDetach && a.kind != kindKeep:
		return &InvalidError{"action", "make it with Join, Leave, Keep or Detach"}
	case a.seat != anySeat && (a.seat < 0 || a.seat >= rules.seats()):
		return &InvalidError{"seat", fmt.Sprintf("must be from 0 to %d, not %d", rules.seats()-1, a.seat)}
	}
	return nil
}
