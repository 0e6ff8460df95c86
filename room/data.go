package room

// SetData replaces the room's data.
type SetData struct {
	// User is a member with the active session Session, whom the settings allow to set data; anybody with Authority.
	// Both are empty if somebody with authority acts without a session.
	User, Session string

	Data      string // JSON, "" to remove it
	Authority bool   // the user has authority over the room: need not be a member, and no settings apply

	// Expect makes it fail with [ErrConflict] if the data has changed since that version, or the room is in another
	// epoch: a compare-and-set for a caller that has followed the room up to that version.
	Expect Expect
}

func (SetData) kind() Kind                { return kindData }
func (a SetData) subject() (string, bool) { return a.User, false }

func (a SetData) check(rules Rules) (_ Action, err error) {
	if a.User, err = checkActor(a.User, a.Session); err != nil {
		return nil, err
	}
	a.Data, err = parseData("data", a.Data, rules.Limits.roomData())
	return a, err
}

func (a SetData) apply(r *Room, _ Rules, by Origin) (int, error) {
	if a.User != "" && !a.Authority {
		if err := maySetData(r, a.User, a.Session, by, "its data"); err != nil {
			return 0, err
		}
	}
	if err := a.Expect.checkData(r, r.state.data.since(), "the data of room "+r.ID); err != nil {
		return 0, err
	}
	if r.state.data.String() != a.Data {
		r.updateState(Update{Type: kindData, User: a.User, Detail: &Detail{Data: jsonOf(a.Data)}})
	}
	return 0, nil
}

// maySetData fails unless a member may set the room's data. what names the thing to be set.
func maySetData(r *Room, user, session string, by Origin, what string) error {
	if _, err := activeMember(r, user, session, by); err != nil {
		return err
	}
	if r.state.settings.Data != DataMembers {
		return Forbid("the settings of room %s let only admins set %s", r.ID, what)
	}
	return nil
}

// SetMemberData replaces the data of the member with that active session. It is gone when the member leaves.
type SetMemberData struct {
	User, Session string
	Data          string // JSON, "" to remove it
	Expect        Expect // as in SetData
}

func (SetMemberData) kind() Kind                { return kindMember }
func (a SetMemberData) subject() (string, bool) { return a.User, false }

func (a SetMemberData) check(rules Rules) (_ Action, err error) {
	if a.User, err = checkSession(a.User, a.Session); err != nil {
		return nil, err
	}
	a.Data, err = parseData("data", a.Data, rules.Limits.memberData())
	return a, err
}

func (a SetMemberData) apply(r *Room, _ Rules, by Origin) (int, error) {
	m, err := activeMember(r, a.User, a.Session, by)
	if err != nil {
		return 0, err
	}
	if err := a.Expect.checkData(r, m.Data.since(), "the data of "+a.User); err != nil {
		return 0, err
	}
	if a.Data == m.Data.String() {
		return m.Seat, nil
	}
	r.update(m.Node, Update{Type: kindMember, User: a.User, Seat: m.Seat, Detail: &Detail{Data: jsonOfMember(a.Data)}})
	return m.Seat, nil
}

// Ready records whether the member with that active session is ready. [Rules.Starter] may begin a game when all are.
type Ready struct {
	User, Session string
	Value         bool
}

func (Ready) kind() Kind                { return kindReady }
func (a Ready) subject() (string, bool) { return a.User, false }

func (a Ready) check(Rules) (Action, error) {
	user, err := checkSession(a.User, a.Session)
	if err != nil || user == a.User {
		return nil, err
	}
	a.User = user
	return a, nil
}

func (a Ready) apply(r *Room, _ Rules, by Origin) (int, error) {
	m, err := activeMember(r, a.User, a.Session, by)
	if err == nil && a.Value != m.Ready {
		r.update(m.Node, Update{Type: kindMember, User: a.User, Seat: m.Seat, Detail: &Detail{Ready: new(a.Value)}})
	}
	return m.Seat, err
}

// activeMember returns the user as a member, if session is the active one. A session that was considered
// lost, because its node had stalled, becomes active again.
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
