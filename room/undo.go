package room

// Undo takes back what one half of a move has done to the room to which users were to come, because its other half could not be
// written. Only what is still as the half has left it counts: who has come, or gone, by himself meanwhile is where he wants
// to be. It is of nodes alone.
type Undo struct {
	Session string // under which seats are reserved; see Reserve
	From    string // the room from which users were to come
	Written bool   // it is known that the half was written; else seats under the session say so

	// The room before the half, which made the next version.
	Since uint64
	Host  string
	Data  *Value
	Were  map[string]Member // those of Users and Back who were members

	Users []string // who were to come: seats that they did not have are given up

	// Back are who left in exchange. Their seats are reserved under the session: the same ones as far as they are free,
	// whatever Rules.Seating says, with the time of the join and data.
	Back []string
}

func (Undo) kind() Kind                  { return kindUndo }
func (Undo) subject() (string, bool)     { return "", true }
func (Undo) check(Rules) (Action, error) { return nil, errOfNodes }

func (a Undo) apply(r *Room, rules Rules, by Origin) (int, error) {
	written := a.Written || a.hasReserved(r)
	for _, user := range a.Users {
		m, ok := r.Member(user)
		was, had := a.Were[user]
		switch {
		case !ok:
		case had:
			if written && m.Private.since() == a.Since+1 && m.Private.String() != was.Private.String() { // those of the other room
				r.update(m.Node, Update{Type: KindPrivate, User: user, Seat: m.Seat, Detail: &Detail{Data: jsonOfMember(was.Private.String())}})
			}
		case a.reserved(m):
			r.update(by.Node, Update{Type: KindLeave, User: user, Seat: m.Seat, Reason: ReasonLeft})
		}
	}
	var others []string
	for _, user := range a.Back {
		seat := a.Were[user].Seat
		switch {
		case !a.tookOut(r, user) || r.state.checkBan(r.ID, user, by.At) != nil:
		case r.members.seats.has(seat) || seat >= seats(r, rules) || r.Count() >= seats(r, rules):
			others = append(others, user)
		default:
			a.giveBack(r, by, user, seat)
		}
	}
	for _, user := range others {
		if seat, err := rules.seat(r, user, AnySeat, true); err == nil { // else the room is full by now
			a.giveBack(r, by, user, seat)
		}
	}
	if m, ok := r.Member(a.Host); ok && a.reserved(m) && r.Host() != a.Host {
		r.updateState(Update{Type: KindHost, User: a.Host, Detail: broughtBack})
	}
	if written && r.state.data.since() == a.Since+1 && r.state.data.String() != a.Data.String() { // Rules.Starter has set them
		r.updateState(Update{Type: KindData, Detail: &Detail{Data: jsonOf(a.Data.String())}})
	}
	return 0, nil
}

// reserved reports whether a seat is reserved under the session.
func (a Undo) reserved(m Member) bool { return m.Reserved() && m.SessionID() == a.Session }

func (a Undo) hasReserved(r *Room) bool {
	for _, m := range r.Members() {
		if a.reserved(m) {
			return true
		}
	}
	return false
}

// tookOut reports whether a user is not in the room because of this half, and nothing else.
func (a Undo) tookOut(r *Room, user string) bool {
	g := r.Gone()[user]
	_, shut := r.Gone()[everybody]
	_, was := a.Were[user]
	return was && !shut && !r.isMember(user) && g.Reason == ReasonMoved && g.Target == a.From && g.Version == a.Since+1
}

// giveBack reserves a seat for a user, with what was kept of him.
func (a Undo) giveBack(r *Room, by Origin, user string, seat int) {
	was := a.Were[user]
	was.Seat, was.Session, was.Node = seat, reserved+a.Session, by.Node
	r.seatAgain(user, was, Detail{Again: r.state.settings.Closed})
}
