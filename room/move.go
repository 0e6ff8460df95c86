package room

// Reserve seats users who have not come yet: all of them, or none. Each has a seat, and is away, until a session of
// the user joins; a [Leave] of this session frees one such seat. A member keeps the seat; a seat that is already
// reserved becomes reserved for this session, so that a release of the earlier reservation does not free it. It fails
// with [ErrFull], [ErrBanned], [ErrRoomClosed] or an error of Rules.Seating. It needs authority over the room.
type Reserve struct {
	Session string // a new id, used only for this reservation
	Users   []string
	Begin   *Settings // as in Join

	// Carried is private data by user, checked in the room from which the users come; nil for none. A member who
	// already has private data keeps it. Entries for other users are ignored.
	Carried map[string]string
}

func (Reserve) kind() Kind { return kindReserve }

func (Reserve) subject() (string, bool) { return "", true }

func (a Reserve) check(rules Rules) (_ Action, err error) {
	if err := a.Begin.checkBegin(rules); err != nil {
		return nil, err
	}
	if a.Users, err = parseUsers("users", a.Users); err != nil {
		return nil, err
	}
	return a, checkSessionID(a.Session)
}

func (a Reserve) apply(r *Room, rules Rules, by Origin) (int, error) {
	if err := a.Begin.begin(r); err != nil {
		return 0, err
	}
	all, wanted := seats(r, rules), 0
	for _, user := range a.Users {
		if _, ok := r.Member(user); !ok {
			wanted++
		}
	}
	if free := all - r.Count(); wanted > max(free, 0) && !r.state.settings.Closed {
		return 0, Refuse(ErrFull, "room %s has %d of %d seats free, and not %d", r.ID, max(free, 0), all, wanted)
	}
	session, at := reserved+a.Session, r.members.joinTime(by)
	for _, user := range a.Users {
		if m, ok := r.Member(user); ok {
			if m.Reserved() && m.Session != session {
				r.update(by.Node, Update{Type: kindReplace, User: user, Seat: m.Seat, Session: session, Old: m.Session})
			}
			a.carry(r, user)
			continue
		}
		if err := r.state.checkBan(r.ID, user, by.At); err != nil {
			return 0, err
		}
		seat, err := rules.seat(r, user, AnySeat, false)
		if err != nil {
			return 0, err
		}
		r.update(by.Node, Update{Type: KindJoin, User: user, Seat: seat, Session: session, At: at})
		a.carry(r, user)
	}
	return 0, nil
}

// carry gives a user the private data carried along.
func (a Reserve) carry(r *Room, user string) {
	m, ok := r.Member(user)
	if data := a.Carried[user]; ok && data != "" && data != m.Private.String() && (m.Reserved() || m.Private.String() == "") {
		r.update(m.Node, Update{Type: kindPrivate, User: user, Seat: m.Seat, Detail: &Detail{Data: jsonOfMember(data)}})
	}
}

// Release removes users, all or none. It fails with [ErrNotMember] if one is not there. It needs authority.
type Release struct {
	Users  []string
	Target string // the room to which they are moved; "" if they just leave
}

func (Release) kind() Kind { return kindRelease }

func (Release) subject() (string, bool) { return "", true }

func (a Release) check(Rules) (_ Action, err error) {
	a.Users, err = parseUsers("users", a.Users)
	return a, err
}

func (a Release) apply(r *Room, _ Rules, by Origin) (int, error) {
	u := Update{Type: KindLeave, Reason: ReasonLeft}
	if a.Target != "" {
		u.Reason, u.At, u.Detail = ReasonMoved, by.At, &Detail{Target: a.Target}
	}
	for _, user := range a.Users {
		m, ok := r.Member(user)
		if !ok {
			return 0, absent(r, user)
		}
		u.User, u.Seat = user, m.Seat
		r.update(by.Node, u)
	}
	return 0, nil
}

// Undo undoes the half of a move in the room that users were to enter, because the other half could not be written.
// It changes only what is still as the move left it: it keeps what users did meanwhile. Only nodes run it.
type Undo struct {
	Session string // for which seats are reserved; see Reserve
	Written bool   // the half was certainly written; otherwise only seats reserved for the session prove it

	// The room before the half, whose version is Since+1.
	Since uint64
	Data  *Value
	Were  map[string]Member // the memberships, before the half, of those Users who had one

	Users []string // the users to be moved: seats that they did not have before are freed
}

func (Undo) kind() Kind { return kindUndo }

func (Undo) subject() (string, bool) { return "", true }

func (Undo) check(Rules) (Action, error) { return nil, errOfNodes }

func (a Undo) apply(r *Room, _ Rules, by Origin) (int, error) {
	written := a.Written || a.hasReserved(r)
	for _, user := range a.Users {
		m, ok := r.Member(user)
		was, had := a.Were[user]
		switch {
		case !ok:
		case had:
			// the member still has the private data that the move brought
			if written && m.Private.since() == a.Since+1 && m.Private.String() != was.Private.String() {
				r.update(m.Node, Update{Type: kindPrivate, User: user, Seat: m.Seat, Detail: &Detail{Data: jsonOfMember(was.Private.String())}})
			}
		case a.reserved(m):
			r.update(by.Node, Update{Type: KindLeave, User: user, Seat: m.Seat, Reason: ReasonLeft})
		}
	}
	// the Starter has replaced the data in the move's commit
	if written && r.state.data.since() == a.Since+1 && r.state.data.String() != a.Data.String() {
		r.updateState(Update{Type: kindData, Detail: &Detail{Data: jsonOf(a.Data.String())}})
	}
	return 0, nil
}

// reserved reports whether a seat is reserved for the session.
func (a Undo) reserved(m Member) bool { return m.Reserved() && m.SessionID() == a.Session }

func (a Undo) hasReserved(r *Room) bool {
	for _, m := range r.Members() {
		if a.reserved(m) {
			return true
		}
	}
	return false
}
