package room

import (
	"cmp"
	"strings"
)

// Reserve seats users who have not come yet: all of them, or none. Each is away until a session of the user joins;
// before that, a [Leave] of Session frees the seat, or the end of the settings' grace. Members keep their seats. A seat
// that was reserved before is now reserved for Session, so a release of the earlier reservation does not free it.
// Reserve fails with [ErrFull], [ErrBanned], [ErrRoomClosed], [ErrOtherLabels] or an error of Rules.Seating. It needs
// authority over the room.
type Reserve struct {
	Session string // a new id, used only for this reservation
	Users   []string
	Begin   *Settings // as in Join

	// Carried is private data by user, from the room that the users leave, where it was checked; nil for none. A member
	// who has private data keeps it, unless the seat is only reserved. Entries for other users are ignored.
	Carried map[string]string

	// Half says that the users have not left their room yet, in another commit: a grace longer than 30 s begins with
	// [Upkeep].Whole. Until then a node that dies must not leave seats behind.
	Half bool
}

func (Reserve) about() (Kind, string, bool) { return kindReserve, "", true }

func (a Reserve) check(rules Rules) (_ Action, err error) {
	if a.Begin, err = a.Begin.checkBegin(rules); err != nil {
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
	session, at := r.state.settings.reserved(a.Session, by, a.Half), r.members.joinTime(by)
	for _, user := range a.Users {
		if m, ok := r.Member(user); ok {
			if m.Reserved() && m.Session != session {
				r.update(Update{Type: kindReplace, User: user, Seat: m.Seat, Session: session, node: by.Node,
					Old: m.Session})
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
		r.update(Update{Type: KindJoin, User: user, Seat: seat, Session: session, node: by.Node, At: at})
		a.carry(r, user)
	}
	return 0, nil
}

// carry gives a user the private data in Carried.
func (a Reserve) carry(r *Room, user string) {
	m, _ := r.Member(user)
	if data := a.Carried[user]; data != "" && (m.Reserved() || m.Private.String() == "") {
		setPrivate(r, user, m, data)
	}
}

// Release removes users, all or none. It fails with [ErrNotMember] if one is not there. It needs authority.
type Release struct {
	Users  []string
	Target string // the room to which they are moved; "" if they just leave

	// Labels, if not "", moves only Mover and users who agreed to that: see [Agree]. It fails with [ErrNotMember] if one
	// has not, and with [ErrForbidden] if one's token does not allow Target.
	Labels Labels
	Mover  string // who moves the others; with Labels
}

func (Release) about() (Kind, string, bool) { return kindRelease, "", true }

func (a Release) check(Rules) (_ Action, err error) {
	a.Users, err = parseUsers("users", a.Users)
	return a, err
}

func (a Release) apply(r *Room, _ Rules, by Origin) (int, error) {
	u := Update{Type: KindLeave, Reason: ReasonLeft}
	if a.Target != "" {
		u.Reason, u.At, u.Detail = ReasonMoved, by.At, &Detail{Target: a.Target, Labels: a.Labels}
	}
	for _, user := range a.Users {
		m, ok := r.Member(user)
		if !ok {
			return 0, absent(r, user)
		}
		if a.Labels != "" && user != a.Mover {
			if err := m.agrees(user, a.Labels, a.Target); err != nil {
				return 0, err
			}
		}
		u.User, u.Seat = user, m.Seat
		r.update(u)
	}
	return 0, nil
}

// Upkeep is an action of nodes: exactly one field is set, besides Grace. [Check] refuses it. [Room.Apply] returns how
// many members became away or left, or how many timers fired, in place of a seat.
type Upkeep struct {
	// Stray names a dead node. Its members are away, as after a [Detach] of each.
	Stray string

	// Evict names a dead node. Its members leave, except those who are not away yet in a room whose settings have a
	// longer grace.
	Evict string

	// Grace is that of the node in Stray or Evict, in ms. Of two graces the longer counts when a node dies.
	Grace int64

	// Renew is an epoch that has lost commits in Redis. If the room is still in it, a new one begins, because the
	// versions of the lost commits would be used again.
	Renew string

	// Due is a time in ms since 1970, by the clock that all nodes share. Timers that are due by then fire, in the order
	// of their times, and members leave whose deadline it is. Each fires or leaves once, however many nodes try: later
	// nodes find it gone, or set to another time.
	Due int64

	// Undo undoes half of a move.
	Undo *Undo

	// Whole is the Session of a Reserve that was [Reserve].Half. Both halves are written.
	Whole string
}

// An Upkeep is alone: an effect of a timer may concern anybody, and another action may expect the epoch that ends.
func (Upkeep) about() (Kind, string, bool) { return kindUpkeep, "", true }

func (Upkeep) check(Rules) (Action, error) {
	return nil, &InvalidError{"action", "is one that only nodes run"}
}

func (a Upkeep) apply(r *Room, rules Rules, by Origin) (n int, err error) {
	switch {
	case a.Undo != nil:
		a.Undo.apply(r)
		return 0, nil
	case a.Whole != "":
		a.keep(r, by)
		return 0, nil
	case a.Due > 0:
		return a.fire(r, rules, by)
	case a.Renew != "":
		if a.Renew == r.Epoch {
			r.Renew()
		}
		return 0, nil
	}
	settings := r.state.settings
	deadline := settings.deadline(by, a.Grace)
	for _, o := range r.Snapshot().Users() {
		switch m, _ := r.Member(o.User); {
		case a.Evict != "" && m.Node == a.Evict && !m.Detached() && deadline > 0:
			stray(r, o.User, m, deadline)
		case a.Evict != "" && m.Node == a.Evict:
			r.update(Update{Type: KindLeave, User: o.User, Seat: m.Seat, Reason: ReasonNode})
			n++
		case a.Stray != "" && m.Node == a.Stray && !m.Detached():
			until := deadline
			if until > 0 { // the node still counts its own grace
				until = settings.deadline(by, 0)
			}
			stray(r, o.User, m, until)
			n++
		}
	}
	return n, nil
}

// keep has the seats of a move that is whole kept for the grace.
func (a Upkeep) keep(r *Room, by Origin) {
	for _, o := range r.Snapshot().Users() {
		if m, _ := r.Member(o.User); m.reservedFor(a.Whole) {
			r.update(Update{Type: kindReplace, User: o.User, Seat: m.Seat,
				Session: r.state.settings.reserved(a.Whole, by, false), node: by.Node, Old: m.Session})
		}
	}
}

// fire fires the timers that are due, and returns their number.
func (a Upkeep) fire(r *Room, rules Rules, by Origin) (n int, err error) {
	for err == nil {
		name, t, found := r.state.timers.Next()
		if !found || t.Due > a.Due {
			break
		}
		n++
		r.endTimer(kindTimer, "", name)
		switch then := cmp.Or(t.Then, new(Effect)); {
		case then.Close:
			_, err = Close{}.apply(r, rules, by)
		case then.Kick != "" && r.members.has(then.Kick):
			_, err = Kick{User: then.Kick}.apply(r, rules, by)
		case then.Data != nil && r.state.data.since() <= t.Version:
			r.setData("", strings.TrimPrefix(string(then.Data), "null"))
		}
	}
	return n + expire(r, a.Due), err
}

// Undo undoes the Reserve of a move, because the Release in the other room could not be written. It keeps all that
// users have changed since.
type Undo struct {
	Session string // of the Reserve
	Written bool   // the Reserve was certainly written; otherwise only seats reserved for the session prove it

	// The room before the Reserve, which made version Since+1.
	Since uint64
	Data  *Value
	Were  map[string]Member // the memberships of those Users who had one

	Users []string // the users to be moved; Undo frees the seats that they did not have before
}

func (a *Undo) apply(r *Room) {
	written := a.Written
	for _, m := range r.Members() {
		written = written || m.reservedFor(a.Session)
	}
	for _, user := range a.Users {
		m, ok := r.Member(user)
		was, had := a.Were[user]
		switch {
		case had && ok && written && m.Private.since() == a.Since+1: // else the move brought no private data
			setPrivate(r, user, m, was.Private.String())
		case !had && ok && m.reservedFor(a.Session):
			r.update(Update{Type: KindLeave, User: user, Seat: m.Seat, Reason: ReasonLeft})
		}
	}
	if written && r.state.data.since() == a.Since+1 { // the Starter has replaced the data in the move's commit
		r.setData("", a.Data.String())
	}
}

// reservedFor reports whether the seat is reserved for the session.
func (m Member) reservedFor(session string) bool { return m.Reserved() && m.SessionID() == session }
