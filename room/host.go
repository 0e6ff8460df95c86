package room

import "cmp"

// Claim lets the host of a room do an action that otherwise needs authority over the room. The action fails with
// [ErrForbidden] if the user is not the host at that time, and with [ErrNotMember] if the session is not the user's
// active one. The zero value claims nothing: the caller has authority.
type Claim struct{ User, Session string }

func (c Claim) check() (Claim, error) {
	user, err := checkActor(c.User, c.Session)
	return Claim{user, c.Session}, err
}

// prove fails unless the claim is true.
func (c Claim) prove(r *Room, by Origin) error {
	if c == (Claim{}) {
		return nil
	}
	if r.state.settings.Host == HostNone {
		return Forbid("only admins may do that in room %s: its settings give it no host", r.ID)
	}
	if _, err := activeMember(r, c.User, c.Session, by); err != nil {
		return err
	}
	if r.state.host != c.User {
		return Forbid("only the host of room %s and admins may do that, and %s is not the host", r.ID, c.User)
	}
	return nil
}

// Host returns the host of the room, "" for none.
func (s Snapshot) Host() string {
	if s.state == nil {
		return ""
	}
	return s.state.host
}

// Host returns the host of the room, "" for none. A Seating sees the host before the join.
func (v View) Host() string { return v.room.state.host }

// appoint gives the room the host that its settings require: exactly one member as long as there are any. A host
// stays host, even while away. A room without a host costs only a comparison.
func (r *Room) appoint() {
	host := ""
	if r.state.settings.Host != HostNone {
		if host = r.state.host; host == "" || !r.members.has(host) {
			host = r.members.longestSeated()
		}
	}
	if host != r.state.host {
		r.updateState(Update{Type: kindHost, User: host})
	}
}

// longestSeated returns the member who joined first, by the room's own times, so that all nodes agree. Members who
// joined together are ordered by seat, and members who are away come last. It returns "" for an empty room.
func (m *roster) longestSeated() (longest string) {
	var first Member
	for user, member := range m.byUser {
		if longest == "" || member.sitsBefore(first) {
			longest, first = user, member
		}
	}
	return longest
}

func (m Member) sitsBefore(other Member) bool {
	if away := m.Detached(); away != other.Detached() {
		return !away
	}
	return cmp.Or(cmp.Compare(m.At, other.At), cmp.Compare(m.Seat, other.Seat)) < 0
}
