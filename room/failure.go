package room

// Actions of nodes after a failure. [Check] refuses them.

// Stray records that all sessions of a dead node are disconnected and may come back, as [Detach] does for one.
// [Room.Apply] returns their number in place of a seat.
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

// Evict removes all members of a dead node. [Room.Apply] returns their number in place of a seat.
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

// Renew begins a new epoch if the room is still in Epoch, which has lost commits: their versions will be reused.
type Renew struct{ Epoch string }

func (Renew) kind() Kind                  { return kindRenew }
func (Renew) subject() (string, bool)     { return "", true } // another action may expect the epoch that Renew ends
func (Renew) check(Rules) (Action, error) { return nil, errOfNodes }

func (a Renew) apply(r *Room, _ Rules, _ Origin) (int, error) {
	if a.Epoch == r.Epoch && r.Epoch != "" {
		r.Renew()
	}
	return 0, nil
}

var errOfNodes = &InvalidError{"action", "is one that only nodes run"}

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
