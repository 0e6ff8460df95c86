package room

// roster is who is in a room, by user and by seat.
type roster struct {
	byUser map[string]Member
	seats  seatMap
	newest int64 // the latest At of those who have joined, or were taken out
}

// joinTime returns when who joins now has joined: later than all others, although clocks of nodes differ.
func (m *roster) joinTime(by Origin) int64 { return max(by.At, m.newest+1) }

// update carries out what becomes of one user at a version. node is that of the user's session.
func (m *roster) update(node string, u Update, version uint64) {
	m.newest = max(m.newest, u.At)
	switch u.Type {
	case KindJoin:
		m.put(u.User, Member{Seat: u.Seat, Session: u.Session, Node: node, At: u.At})
	case KindLeave:
		m.remove(u.User)
	case KindSeat:
		if member, ok := m.byUser[u.User]; ok {
			member.Seat = u.Seat
			m.put(u.User, member)
		}
	case KindReplace, KindAway, KindBack:
		if member, ok := m.byUser[u.User]; ok {
			if member.Session = u.Session; u.Type != KindAway { // any node says who is away
				member.Node = node
			}
			m.byUser[u.User] = member
			m.seats.show(member.Seat, member)
		}
	default:
		m.keep(&u, version)
	}
}

// keep carries out an update of what a member keeps, as its row in kept says.
func (m *roster) keep(u *Update, version uint64) {
	member, ok := m.byUser[u.User]
	for i := range kept {
		if kept[i].kind == u.Type && ok {
			member = kept[i].set(member, u.detail(), version)
			m.byUser[u.User] = member
			m.seats.show(member.Seat, member)
		}
	}
}

func (m *roster) put(user string, member Member) {
	m.remove(user)
	m.byUser[user] = member
	m.seats.take(member.Seat, user)
	m.seats.show(member.Seat, member)
}

func (m *roster) remove(user string) {
	if member, ok := m.byUser[user]; ok {
		delete(m.byUser, user)
		if m.seats.at(member.Seat) == user { // else another one has got it, and the user is to get another one
			m.seats.free(member.Seat)
		}
	}
}
