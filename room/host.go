package room

import "cmp"

// Claim is what a user who is the host of a room does an action with that otherwise needs authority over the room.
// The action fails with [ErrForbidden] if the user is not the host by then, and with [ErrNotMember] if the session is
// not the active one of the user. The zero value claims nothing: whoever does the action has authority.
type Claim struct{ User, Session string }

func (c Claim) check() (Claim, error) {
	user, err := checkActor(c.User, c.Session)
	return Claim{user, c.Session}, err
}

// prove fails unless the room is as the claim says.
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

// Host returns the user who is the host of the room, "" if nobody is.
func (s Snapshot) Host() string {
	if s.state == nil {
		return ""
	}
	return s.state.host
}

// Host returns the user who is the host of the room, "" if nobody is. A Seating sees the host of before.
func (v View) Host() string { return v.room.state.host }

// appoint gives the room the host that it has to have by its settings: exactly one of the members as long as there are
// some. Whoever is the host stays so, also while away. A room whose settings say that it has none costs a comparison.
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

// longestSeated returns the member who joined first, by the time that the room keeps, so that all nodes agree; of
// those who joined together the one on the lowest seat. Members who are away come last. It returns "" for a room
// without members.
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
