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
			r.update(a.Node, Update{Type: KindAway, User: o.User, Seat: m.Seat, Session: detached + m.Session, Old: m.Session})
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
			r.update(a.Node, Update{Type: KindLeave, User: o.User, Seat: m.Seat, Reason: ReasonNode})
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
