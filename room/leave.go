package room

import "cmp"

// Leave removes a user whose active session in the room is Session.
type Leave struct {
	User, Session string
	Reason        Reason // the zero value is ReasonLeft
}

func (Leave) kind() Kind                { return KindLeave }
func (a Leave) subject() (string, bool) { return a.User, false }

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
	}
	r.update(by.Node, Update{Type: KindLeave, User: a.User, Seat: m.Seat, Reason: cmp.Or(a.Reason, ReasonLeft)})
	return m.Seat, nil
}

// Detach records that a session is disconnected and may come back. Its user is away and keeps the seat, which any
// session of the user may take over, whatever Rules say. A [Leave] of the session still works.
type Detach struct{ User, Session string }

func (Detach) kind() Kind                { return kindDetach }
func (a Detach) subject() (string, bool) { return a.User, false }

func (a Detach) check(Rules) (Action, error) {
	user, err := checkSession(a.User, a.Session)
	if err != nil || user == a.User {
		return nil, err
	}
	return Detach{user, a.Session}, nil
}

func (a Detach) apply(r *Room, _ Rules, _ Origin) (int, error) {
	m, ok := r.Member(a.User)
	switch {
	case !ok:
		return 0, absent(r, a.User)
	case m.Session == a.Session:
		r.update(m.Node, Update{Type: kindAway, User: a.User, Seat: m.Seat, Session: detached + a.Session, Old: a.Session})
	case m.SessionID() != a.Session:
		return 0, elsewhere(r, a.User, m)
	}
	return m.Seat, nil
}
