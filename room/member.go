package room

import "strings"

// detached precedes the session of a member who is disconnected and may come back.
const detached = "~"

// reserved precedes the session of a reservation; no session begins with a +.
const reserved = detached + "+"

// Member is a user's membership in a room, as stored in Redis.
type Member struct {
	Seat    int    `json:"seat"`    // counted from 0
	Session string `json:"session"` // the user's active session, perhaps prefixed with detached or reserved
	Node    string `json:"node"`    // the node of that session
	At      int64  `json:"at"`      // of the join, in ms since 1970 by the nodes' common clock; after all earlier joins

	Ready bool   `json:"ready,omitzero"` // set by the user
	Data  *Value `json:"data,omitzero"`  // set by the user; nil for none

	Private *Value `json:"private,omitzero"` // shown only to the user and to authority; nil for none
}

// SessionID returns the user's active session, detached or not, or the session that reserves the seat.
func (m Member) SessionID() string {
	if m.Reserved() {
		return m.Session[len(reserved):]
	}
	return strings.TrimPrefix(m.Session, detached)
}

// Reserved reports whether the seat is reserved for the user, who has not come yet.
func (m Member) Reserved() bool { return strings.HasPrefix(m.Session, reserved) }

// Detached reports whether the session is disconnected and may come back.
func (m Member) Detached() bool { return strings.HasPrefix(m.Session, detached) }

// equals reports whether both are stored equally in Redis.
func (m Member) equals(other Member) bool {
	return m.Seat == other.Seat && m.Session == other.Session && m.Node == other.Node && m.At == other.At &&
		m.Ready == other.Ready && m.Data.equals(other.Data) && m.Private.equals(other.Private)
}

// kept has a row for each kind of update that changes a member's data: set applies an update, and all returns the
// detail that restores the data in a room that has lost it; nil for no data.
var kept = [...]struct {
	kind Kind
	set  func(m Member, now Detail, version uint64) Member
	all  func(m Member) *Detail
}{
	{kindMember, func(m Member, now Detail, version uint64) Member {
		if now.Ready != nil {
			m.Ready = *now.Ready
		}
		if now.Data != nil {
			m.Data = m.Data.after(now.Data, version)
		}
		return m
	}, func(m Member) *Detail {
		if !m.Ready && m.Data == nil {
			return nil
		}
		all := &Detail{Data: jsonOf(m.Data.String())}
		if m.Ready {
			all.Ready = new(true)
		}
		return all
	}},
	{kindPrivate, func(m Member, now Detail, version uint64) Member {
		m.Private = m.Private.after(now.Data, version)
		return m
	}, func(m Member) *Detail {
		if m.Private == nil {
			return nil
		}
		return &Detail{Data: jsonOfMember(m.Private.String())}
	}},
}

// roster has the members of a room, by user and by seat.
type roster struct {
	byUser map[string]Member
	seats  seatMap
	newest int64 // the latest At of all who have joined or were taken out
}

// joinTime returns the At of a new member: later than all before, although clocks of nodes differ.
func (m *roster) joinTime(by Origin) int64 { return max(by.At, m.newest+1) }

// update applies an update of one user at a version. node is the node of the user's session.
func (m *roster) update(node string, u Update, version uint64) {
	m.newest = max(m.newest, u.At)
	switch u.Type {
	case KindJoin:
		m.put(u.User, Member{Seat: u.Seat, Session: u.Session, Node: node, At: u.At})
	case KindLeave:
		m.remove(u.User)
	case kindSeat:
		if member, ok := m.byUser[u.User]; ok {
			member.Seat = u.Seat
			m.put(u.User, member)
		}
	case kindReplace, kindAway, kindBack:
		if member, ok := m.byUser[u.User]; ok {
			if member.Session = u.Session; u.Type != kindAway { // any node may report a user away
				member.Node = node
			}
			m.byUser[u.User] = member
			m.seats.show(member.Seat, member)
		}
	default:
		m.keep(&u, version)
	}
}

// keep applies an update of a member's data by its row in kept.
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

func (m *roster) has(user string) bool {
	_, is := m.byUser[user]
	return is
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
		if m.seats.at(member.Seat) == user { // else the seat already has a new user, and this one moves
			m.seats.free(member.Seat)
		}
	}
}
