package room

import (
	"cmp"
	"maps"
	"slices"
)

// Memory is what a node keeps of a room it has seen, for the case that Redis loses it: the room behind the last
// commit that the node knows. See [Room.Recall]. The zero value knows nothing. It is not safe for concurrent use.
type Memory struct{ room *Room }

// See makes the memory the room as it was read or written, unless it knows more of it.
func (m *Memory) See(now *Room) {
	if m.room != nil {
		if order := m.room.Compare(now.Position); order == Same || order == Earlier || m.Outlives(now) {
			return
		}
	}
	known := NewRoom(now.ID, now.Position, maps.Clone(now.members.byUser))
	known.state, known.members.newest = now.state, now.members.newest
	m.room = known
}

// Epoch returns the epoch of the room that the memory knows; "" for none.
func (m *Memory) Epoch() string {
	if m.room == nil {
		return ""
	}
	return m.room.Epoch
}

// Follow brings the memory to an event. It reports whether it knows the room now. It forgets a room of which it
// misses something.
func (m *Memory) Follow(e *Event) bool {
	if m.room != nil && !m.room.Advance(e) && (e.Epoch == m.room.Epoch || e.Version > m.room.Version) {
		m.room = nil
	}
	return m.room != nil
}

// Outlives reports whether Redis has lost what the memory knows, and has no room now, or an earlier copy, or one
// that somebody has begun who did not know it. A room with members, or that is to be kept, does not expire. Each
// new epoch that knows the one before goes on behind its versions: so one that does not was begun without it; nor
// do settings get lost.
func (m *Memory) Outlives(now *Room) bool {
	was := m.room
	switch {
	case was == nil:
		return false
	case was.Epoch == now.Epoch: // what is read late may be old: only who looks under the lock knows that something is lost
		return now.renew && (was.Version > now.Version || was.Compare(now.Position) == Same)
	case was.Count() == 0 && !was.state.settings.Keep:
		return false
	}
	return was.Version >= now.Version || now.state.plain() && !was.state.plain()
}

// plain reports whether the settings are none, or those of a room that began with a join.
func (s *state) plain() bool {
	return !s.settled || s.settings == Settings{Capacity: s.settings.Capacity, Default: true}
}

// Recall gives the room back what m knows and Redis has lost, if it has: members with what is theirs, host,
// settings, bans and data, but no timers. That is part of the next Commit, which begins an epoch behind all
// versions that m knows. An earlier copy becomes what m knows.
//
// If others have begun the room meanwhile, whatever they did stays. A member stays out if they took the member out,
// banned the member or gave away the seat. They may have gone on with an earlier copy: an entry of [Gone] from
// before the join that m knows does not count. A ban that was lifted since does, because bans have no time.
func (r *Room) Recall(m *Memory) {
	if !m.Outlives(r) {
		return
	}
	was, whole := m.room, m.room.Epoch == r.Epoch
	r.renew, r.behind = true, was.Version
	recallState(r, was.state, whole)
	recallMembers(r, was, whole)
	if data := was.state.data.String(); data != r.state.data.String() && (whole || r.state.data == nil) {
		r.updateState(Update{Type: kindData, Detail: &Detail{Data: jsonOf(data), Again: true}})
	}
	if host := was.state.host; host != r.state.host && r.members.has(host) {
		r.updateState(Update{Type: kindHost, User: host, Detail: broughtBack})
	}
	r.appoint()
}

// recallState gives the room the settings and bans that it had. whole says that it is an earlier copy of what it
// was. Where versions are left out it says the settings in any case: so the commit says why that is.
func recallState(r *Room, was *state, whole bool) {
	now, next := r.state, r.state
	if was.settled && (whole || now.plain() && (!now.settled || !was.plain())) {
		next = was
	}
	if next.settled && (r.behind > r.Version || !now.settled || now.settings != next.settings) {
		settings, kind := next.settings, kindSettings
		if next.plain() {
			kind = kindDefaults
		}
		r.updateState(Update{Type: kind, Detail: &Detail{Settings: &settings, Again: true}})
	}
	for _, user := range slices.Sorted(maps.Keys(now.bans)) {
		if whole && was.bans[user] == 0 {
			ban(r, user, 0)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(was.bans)) {
		if until := was.bans[user]; until > now.bans[user] || whole && until != now.bans[user] {
			ban(r, user, until)
		}
	}
}

// recallMembers is recallState for the members.
func recallMembers(r, was *Room, whole bool) {
	for _, user := range slices.Sorted(maps.Keys(r.members.byUser)) {
		m := r.members.byUser[user]
		if known, stays := was.Member(user); whole && !(stays && m.equals(known)) {
			r.update(m.Node, Update{Type: KindLeave, User: user, Seat: m.Seat, Reason: ReasonTimeout, Detail: broughtBack})
		}
	}
	users := slices.SortedFunc(maps.Keys(was.members.byUser), func(a, b string) int {
		return cmp.Compare(was.members.byUser[a].At, was.members.byUser[b].At) // no two are the same
	})
	seats := r.state.settings.Seats()
	for _, user := range users {
		m := was.members.byUser[user]
		gone, out := r.state.gone.of(user)
		out = out && gone.At > m.At || r.state.bans[user] > was.state.bans[user]
		free := r.Count() < seats && m.Seat < seats && !r.members.seats.has(m.Seat)
		if r.members.has(user) || !whole && (out || !free) {
			continue
		}
		seatAgain(r, user, m)
	}
}

// seatAgain gives a user the seat back, with all that was kept of the user as a member.
func seatAgain(r *Room, user string, m Member) {
	back := &Detail{Again: true, Node: m.Node}
	r.update(m.Node, Update{Type: KindJoin, User: user, Seat: m.Seat, Session: m.Session, At: m.At, Detail: back})
	for _, row := range kept {
		if all := row.all(m); all != nil {
			all.Again = true
			r.update(m.Node, Update{Type: row.kind, User: user, Seat: m.Seat, Detail: all})
		}
	}
}
