package room

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Memory is a node's copy of a room as of the last commit that the node knows, in case Redis loses the room. See
// [Room.Recall]. The zero value knows nothing. It is not safe for concurrent use.
type Memory struct{ room *Room }

// See replaces the memory by a room that was read or written, unless the memory is newer or outlives that room.
func (m *Memory) See(now *Room) {
	if m.room != nil && (m.room.Is(now.Position) || now.Precedes(m.room.Position) || m.Outlives(now)) {
		return
	}
	known := NewRoom(now.ID, now.Position, maps.Clone(now.members.byUser))
	known.state, known.members.newest = now.state, now.members.newest
	m.room = known
}

// Epoch returns the epoch of the remembered room; "" for none.
func (m *Memory) Epoch() string {
	if m.room == nil {
		return ""
	}
	return m.room.Epoch
}

// Follow applies an event, and reports whether the memory still knows the room. It forgets the room if events are
// missing before this one, or this one is of another epoch and a higher version.
func (m *Memory) Follow(e *Event) bool {
	if m.room != nil && m.room.Epoch == "" && e.From == 0 { // the room's first commit, which has everything
		m.room.Epoch = e.Epoch
	}
	if m.room != nil && !m.room.Advance(e) && (e.Epoch == m.room.Epoch || e.Version > m.room.Version) {
		m.room = nil
	}
	return m.room != nil
}

// Outlives reports whether Redis, which has the room as in now, has lost the remembered one: now is empty, an earlier
// copy, or was begun without knowledge of the old one. An empty room that is not kept may have expired, which is no
// loss. An epoch begun with knowledge of the old one has higher versions and settings; any other epoch shows a loss.
func (m *Memory) Outlives(now *Room) bool {
	was := m.room
	switch {
	case was == nil:
		return false
	case was.Epoch == now.Epoch: // a late read may be old: only a reader under the lock knows of a loss
		return now.renew && (was.Version > now.Version || was.Is(now.Position))
	case was.Count() == 0 && !was.state.settings.Keep:
		return false
	}
	return was.Version >= now.Version || now.state.plain() && !was.state.plain()
}

// plain reports whether there are no settings, or only a new room's defaults, which set its capacity alone.
func (s *state) plain() bool {
	return !s.settled || s.settings == Settings{Capacity: s.settings.Capacity, Default: true}
}

// Recall restores what m knows and Redis has lost, if anything: members with their data; the room's host, settings,
// bans and data; but no timers. The next Commit includes all this, and begins an epoch whose versions are higher than
// those that m knows. If Redis has an earlier copy, r becomes the room that m knows.
//
// If others have begun the room meanwhile, all they did stays. A member stays out if they took the member out, banned
// the member or gave the seat away. They may have continued an earlier copy, so an entry of [Gone] from before the
// join that m knows is ignored. A ban lifted since is restored, because bans do not say when they were set.
func (r *Room) Recall(m *Memory) {
	if !m.Outlives(r) {
		return
	}
	was, whole := m.room, m.room.Epoch == r.Epoch
	r.renew, r.behind = true, was.Version
	recallState(r, was.state, whole)
	recallMembers(r, was, whole)
	if data := was.state.data.String(); data != r.state.data.String() && (whole || r.state.data == nil) {
		r.update(Update{Type: kindData, Detail: &Detail{Data: jsonOf(data), Again: true}})
	}
	if host := was.state.host; host != r.state.host && r.members.has(host) {
		r.update(Update{Type: kindHost, User: host, Detail: broughtBack})
	}
	r.appoint()
}

// recallState restores settings and bans. whole says that r is an earlier copy of the room. A commit that skips
// versions always includes the settings, marked Again: they show that a loss was repaired.
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
		r.update(Update{Type: kind, Detail: &Detail{Settings: &settings, Again: true}})
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

// recallMembers restores members; see recallState.
func recallMembers(r, was *Room, whole bool) {
	for _, user := range slices.Sorted(maps.Keys(r.members.byUser)) {
		m := r.members.byUser[user]
		if known, stays := was.Member(user); whole && !(stays && m.equals(known)) {
			r.update(Update{Type: KindLeave, User: user, Seat: m.Seat, Reason: ReasonTimeout, Detail: broughtBack})
		}
	}
	users := slices.SortedFunc(maps.Keys(was.members.byUser), func(a, b string) int {
		return cmp.Compare(was.members.byUser[a].At, was.members.byUser[b].At) // no two are equal
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

// seatAgain restores a member with the seat and all data.
func seatAgain(r *Room, user string, m Member) {
	back := &Detail{Again: true, Node: m.Node}
	r.update(Update{Type: KindJoin, User: user, Seat: m.Seat, Session: m.Session, node: m.Node, At: m.At, Detail: back})
	for _, row := range memberData {
		if all := row.all(m); all != nil {
			all.Again = true
			r.update(Update{Type: row.kind, User: user, Seat: m.Seat, Detail: all})
		}
	}
}

// maxDifferences is how many differences are described one by one.
const maxDifferences = 3

// Differences describes how r, a copy, differs from the stored room (is), except for positions; "" if it does not.
func (r *Room) Differences(is *Room) string {
	found := r.members.differences(&is.members)
	if r.state.settled != is.state.settled || r.state.settings != is.state.settings {
		found = append(found, fmt.Sprintf("the settings are %+v instead of %+v", is.state.settings, r.state.settings))
	}
	if !r.state.data.equals(is.state.data) {
		found = append(found, fmt.Sprintf("the data is %.60q of version %d instead of %.60q of version %d",
			is.state.data.String(), is.state.data.since(), r.state.data.String(), r.state.data.since()))
	}
	if r.state.timers.differ(is.state.timers) {
		found = append(found, fmt.Sprintf("%d timers are set instead of %d, or others, or for another time",
			is.state.timers.Len(), r.state.timers.Len()))
	}
	if r.state.host != is.state.host {
		found = append(found, fmt.Sprintf("the host is %q instead of %q", is.state.host, r.state.host))
	}
	if !maps.Equal(r.state.bans, is.state.bans) {
		found = append(found, fmt.Sprintf("%d users are banned instead of %d, or for another time",
			len(is.state.bans), len(r.state.bans)))
	}
	if !maps.Equal(r.State().Gone, is.State().Gone) {
		found = append(found, fmt.Sprintf("%d users were taken out instead of %d, or for another reason",
			len(is.State().Gone), len(r.State().Gone)))
	}
	if more := len(found) - maxDifferences; more > 0 {
		found = append(found[:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(found, "; ")
}

func (m *roster) differences(is *roster) (found []string) {
	for user, known := range m.byUser {
		switch m, there := is.byUser[user]; {
		case !there:
			found = append(found, fmt.Sprintf("%q is missing on seat %d", user, known.Seat))
		case m.Seat != known.Seat:
			found = append(found, fmt.Sprintf("%q is on seat %d instead of %d", user, m.Seat, known.Seat))
		case m.Session != known.Session || m.Node != known.Node || m.At != known.At:
			found = append(found, fmt.Sprintf("%q has another session", user))
		case !m.Private.equals(known.Private):
			found = append(found, fmt.Sprintf("%q has other private data", user))
		case !m.equals(known):
			found = append(found, fmt.Sprintf("%q has other data, or is ready or not", user))
		}
	}
	for user, extra := range is.byUser {
		if !m.has(user) {
			found = append(found, fmt.Sprintf("%q is too many, on seat %d", user, extra.Seat))
		}
	}
	slices.Sort(found)
	return found
}
