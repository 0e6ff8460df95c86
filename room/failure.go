package room

// What nodes do to a room after a failure. [Check] refuses these actions: nobody else may ask for them.

// Stray records that the sessions of a dead node are disconnected and may come back, as [Detach] does
// for one. [Room.Apply] returns how many they were instead of a seat.
type Stray struct{ Node string }

func (Stray) kind() Kind                  { return kindStray }
func (Stray) subject() (string, bool)     { return "", false }
func (Stray) check(Rules) (Action, error) { return nil, errOfNodes }

func (a Stray) apply(r *Room, _ Rules, _ Origin) (n int, err error) {
	for _, o := range r.Snapshot().Users() {
		if m, _ := r.Member(o.User); m.Node == a.Node && !m.Detached() {
			r.update(a.Node, Update{Type: kindAway, User: o.User, Seat: m.Seat, Session: detached + m.Session, Old: m.Session})
			n++
		}
	}
	return n, nil
}

// Evict takes all members of a dead node out of a room. [Room.Apply] returns how many they were instead
// of a seat.
type Evict struct{ Node string }

func (Evict) kind() Kind                  { return kindEvict }
func (Evict) subject() (string, bool)     { return "", false }
func (Evict) check(Rules) (Action, error) { return nil, errOfNodes }

func (a Evict) apply(r *Room, _ Rules, _ Origin) (n int, err error) {
	for _, o := range r.Snapshot().Users() {
		if m, _ := r.Member(o.User); m.Node == a.Node {
			r.update(a.Node, Update{Type: KindLeave, User: o.User, Seat: m.Seat, Reason: reasonNode})
			n++
		}
	}
	return n, nil
}

// Renew begins a new epoch if the room is still in this one. Commits of it were lost, and their versions
// will come again with other content.
type Renew struct{ Epoch string }

func (Renew) kind() Kind                  { return kindRenew }
func (Renew) subject() (string, bool)     { return "", true } // what shares its commit may expect the epoch that it ends
func (Renew) check(Rules) (Action, error) { return nil, errOfNodes }

func (a Renew) apply(r *Room, _ Rules, _ Origin) (int, error) {
	if a.Epoch == r.Epoch && r.Epoch != "" {
		r.Renew()
	}
	return 0, nil
}

var errOfNodes = &InvalidError{"action", "is one that only nodes run"}

// Undo takes back what one half of a move has done to the room to which users were to come, because its other half
// could not be written. Only what is still as the half has left it counts: who has come, or gone, by himself
// meanwhile is where he wants to be. It is of nodes alone.
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
				r.update(m.Node, Update{Type: kindPrivate, User: user, Seat: m.Seat, Detail: &Detail{Data: jsonOfMember(was.Private.String())}})
			}
		case a.reserved(m):
			r.update(by.Node, Update{Type: KindLeave, User: user, Seat: m.Seat, Reason: ReasonLeft})
		}
	}
	if written && r.state.data.since() == a.Since+1 && r.state.data.String() != a.Data.String() { // Rules.Starter has set them
		r.updateState(Update{Type: kindData, Detail: &Detail{Data: jsonOf(a.Data.String())}})
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
