package room

// SetData gives the room other data: JSON, or "" to remove it. As it is, it needs authority over
// the room; [Action.By] makes it that of a member, whom the room's settings may forbid it.
//
// To replace only what is known, add [Action.Unchanged].
func SetData(data string) Action {
	return Action{kind: KindData, seat: AnySeat}.with(func(m *more) { m.data = data })
}

// SetMemberData gives the member for whom the session speaks other data: JSON, or "" to remove it.
// It is gone when the member leaves.
func SetMemberData(user, session, data string) Action {
	return Action{kind: KindMember, user: user, session: session, seat: AnySeat}.with(func(m *more) { m.data = data })
}

// By makes a [SetData] or a [Say] that of the member for whom the session speaks.
func (a Action) By(user, session string) Action {
	a.user, a.session = user, session
	return a
}

// WithAuthority gives back to a [SetData] of a user the authority over the room, which By has taken
// away: the user need not be a member, and no settings forbid it.
func (a Action) WithAuthority() Action { return a.with(func(m *more) { m.authority = true }) }

func checkData(a Action, limit int) (Action, error) {
	text, err := ParseData("data", a.more.data, limit)
	return a.with(func(m *more) { m.data = text }), err
}

// Ready says whether the member for whom the session speaks is ready. [Rules.Starter] may decide
// that a game begins when all are.
func Ready(user, session string, ready bool) Action {
	return Action{kind: kindReady, user: user, session: session, seat: AnySeat}.with(func(m *more) { m.ready = ready })
}

// setData carries out a SetData.
func setData(r *Room, a Action) error {
	if a.user != "" && !a.more.authority {
		if _, err := speaking(r, a); err != nil {
			return err
		}
		if r.state.settings.Data == DataAdmins {
			return Forbid("the settings of room %s let only admins set its data", r.ID)
		}
	}
	if err := compare(r, a, r.state.data.since(), "the data of room "+r.ID); err != nil {
		return err
	}
	if r.state.data.String() != a.more.data {
		r.updateState(Update{Type: KindData, User: a.user, Detail: &Detail{Data: jsonOf(a.more.data)}})
	}
	return nil
}

// setMember carries out a SetMemberData or a Ready.
func setMember(r *Room, a Action) (int, error) {
	m, err := speaking(r, a)
	if err != nil {
		return 0, err
	}
	next := Detail{Ready: m.Ready, Data: jsonOf(m.Data.String())}
	if a.kind == kindReady {
		next.Ready = a.more.ready
	} else {
		if err := compare(r, a, m.Data.since(), "the data of "+a.user); err != nil {
			return 0, err
		}
		next.Data = jsonOf(a.more.data)
	}
	if next.Ready != m.Ready || string(next.Data) != m.Data.String() {
		r.update(m.Node, Update{Type: KindMember, User: a.user, Seat: m.Seat, Detail: &next})
	}
	return m.Seat, nil
}

// compare fails with ErrConflict if what an action would set has changed since the version that
// the action expects.
func compare(r *Room, a Action, since uint64, what string) error {
	switch m := a.more; {
	case !m.expect || !m.unchanged:
	case m.epoch != "" && m.epoch != r.Epoch:
		return Refuse(ErrConflict, "room %s has begun anew", r.ID)
	case since > m.version:
		return Refuse(ErrConflict, "%s has changed since version %d", what, m.version)
	case m.version > r.Version:
		return Refuse(ErrConflict, "room %s is at version %d, not yet at %d", r.ID, r.Version, m.version)
	}
	return nil
}

// speaking returns the member for whom the session of an action speaks.
func speaking(r *Room, a Action) (Member, error) {
	m, ok := r.Member(a.user)
	switch {
	case !ok:
		return m, absent(r, a.user)
	case m.Session != a.session:
		return m, elsewhere(r, a.user)
	}
	return m, nil
}
