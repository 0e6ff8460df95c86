package room

// Reserve seats users who have not come yet: all of them, or none. Each has a seat, and is away,
// until a session of the user joins; a [Leave] of this session gives the seat of one of them back.
// Who is a member already keeps the seat. It fails with [ErrFull], [ErrBanned], [ErrRoomClosed] or
// an error of Rules.Seating.
func Reserve(session string, users ...string) Action {
	return Action{kind: KindReserve, session: session, seat: AnySeat}.with(func(m *more) { m.users = users })
}

// Release has users leave: all of them, or none. It fails with [ErrNotMember] if one of them is not
// in the room.
func Release(users ...string) Action {
	return Action{kind: KindRelease, seat: AnySeat, reason: ReasonLeft}.with(func(m *more) { m.users = users })
}

// ReleaseTo is Release of users who are taken to another room.
func ReleaseTo(target string, users ...string) Action {
	return Release(users...).Because(ReasonMoved).with(func(m *more) { m.target = target })
}

func checkGroup(a Action) (_ Action, err error) {
	users, err := parseUsers("users", a.more.users)
	if err != nil {
		return a, err
	}
	if a.kind == KindReserve {
		err = checkSessionID(a.session)
	}
	return a.with(func(m *more) { m.users = users }), err
}

func reserve(r *Room, a Action, rules Rules, by Origin) error {
	all, wanted := seats(r, rules), 0
	for _, user := range a.more.users {
		if _, ok := r.Member(user); !ok {
			wanted++
		}
	}
	if free := all - r.Count(); wanted > max(free, 0) && !r.state.settings.Closed {
		return Refuse(ErrFull, "room %s has %d of %d seats free, and not %d", r.ID, max(free, 0), all, wanted)
	}
	for _, user := range a.more.users {
		if _, ok := r.Member(user); ok {
			continue
		}
		if err := checkBan(r, user, by.At); err != nil {
			return err
		}
		seat, err := rules.seat(r, user, AnySeat, false)
		if err != nil {
			return err
		}
		r.update(by.Node, Update{Type: KindJoin, User: user, Seat: seat, Session: reserved + a.session, At: by.At})
	}
	return nil
}

func release(r *Room, a Action, by Origin) error {
	var detail *Detail
	if a.more.target != "" {
		detail = &Detail{Target: a.more.target}
	}
	for _, user := range a.more.users {
		m, ok := r.Member(user)
		if !ok {
			return absent(r, user)
		}
		r.update(by.Node, Update{Type: KindLeave, User: user, Seat: m.Seat, Reason: a.reason, Detail: detail})
	}
	return nil
}

// Users returns who are in the group of a [Reserve] or [Release].
func (a Action) Users() []string { return a.more.users }
