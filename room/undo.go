package room

// Undo takes back what one half of a move has done to the room to which users were to come, because its other half could not be
// written. Only what is still as the half has left it counts: who has come, or gone, by himself meanwhile is where he wants
// to be. It is of nodes alone.
type Undo struct {
	Session string // under which seats are reserved; see Reserve
	Written bool   // it is known that the half was written; else seats under the session say so

	// The room before the half, which made the next version.
	Since uint64
	Data  *Value
	Were  map[string]Member // those of Users who were members

	Users []string // who were to come: seats that they did not have are given up
}

func (Undo) kind() Kind                  { return kindUndo }
func (Undo) subject() (string, bool)     { return "", true }
func (Undo) check(Rules) (Action, error) { return nil, errOfNodes }

func (a Undo) apply(r *Room, _ Rules, by Origin) (int, error) {
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
