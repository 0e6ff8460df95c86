package history

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// request lets a client ask for something else than to join or to leave.
func (m *simulation) request(c *client) {
	if c.waits {
		return
	}
	q := Request{By: c.user, Action: rapid.SampledFrom([]string{SetReady, SetMember, SetData, SetData, Say, Say}).Draw(m.t, "request")}
	word := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(m.t, "word")
	switch q.Action {
	case SetReady:
		q.Ready = word == ""
	case Say:
		q.Text = "hi " + word
		if rapid.Bool().Draw(m.t, "private") {
			q.To = []string{rapid.SampledFrom(m.clients).Draw(m.t, "to").user, "nobody"}
		}
	default:
		q.Data = word
		if rapid.Bool().Draw(m.t, "compare") {
			q.Expect = at(m.version - min(m.version, rapid.Uint64Range(0, 4).Draw(m.t, "expect")))
		}
	}
	c.waits = true
	m.pending = append(m.pending, &request{c: c, session: c.session, action: q.Action, q: q})
}

// order lets an administrator do something.
func (m *simulation) order() {
	q := Request{Action: rapid.SampledFrom([]string{Kick, Configure, Configure, Reserve, Reserve, Release, SetData, SetData, Close}).Draw(m.t, "order")}
	users := make(map[string]bool)
	for range rapid.IntRange(1, 3).Draw(m.t, "users") {
		users[rapid.SampledFrom(m.clients).Draw(m.t, "user").user] = true
	}
	if q.Action == Kick {
		users = map[string]bool{rapid.SampledFrom(m.clients).Draw(m.t, "user").user: true}
	}
	for _, user := range slices.Sorted(maps.Keys(users)) {
		q.Users = append(q.Users, Member{User: user})
	}
	q.Settings = Rules{Capacity: rapid.SampledFrom([]int{0, 1, 2, 4}).Draw(m.t, "capacity"), Closed: rapid.IntRange(0, 7).Draw(m.t, "closed") == 0}
	q.Data = fmt.Sprint(m.version)
	if rapid.Bool().Draw(m.t, "compare") && (q.Action == SetData || q.Action == Configure) {
		q.Expect = at(m.version - min(m.version, rapid.Uint64Range(0, 2).Draw(m.t, "expect")))
	}
	// Nobody knows of an administrator's request that it is under way.
	done, outcome := m.act(q)
	m.write(false, done)
	s := step{what: "admin", q: q, list: List{Epoch: "e", Version: m.version}, there: m.there(q), seat: len(done)}
	switch {
	case outcome == "conflict":
		s.what = "admin conflict"
	case outcome == "refused":
		s.what = "admin refused"
	case m.version == 0:
		return
	case !m.calm && rapid.IntRange(0, 3).Draw(m.t, "unanswered") == 0:
		s.what = "admin unanswered"
	case q.Action == Reserve:
		s.q.Users = slices.Clone(q.Users)
		for i := range s.q.Users {
			s.q.Users[i].Seat = m.members[s.q.Users[i].User].seat
		}
	}
	m.trace = append(m.trace, s)
	if s.what == "admin" && q.Action == Reserve && !m.calm {
		s.what = "may leave"
		m.trace = append(m.trace, s)
	}
}

// act carries a request out, and returns its changes, and why it was refused.
func (m *simulation) act(q Request) (done []Change, outcome string) {
	now := m.members[q.By]
	change := Change{User: q.By, Seat: now.seat}
	switch q.Action {
	case SetReady, SetMember:
		if q.Action == SetMember && q.Expect != nil && now.at > *q.Expect {
			return nil, "conflict"
		}
		if q.Action == SetReady && now.ready == q.Ready || q.Action == SetMember && now.data == q.Data {
			return nil, "done"
		}
		if q.Action == SetReady {
			now.ready = q.Ready
		} else {
			now.data, now.at = q.Data, m.version+1
		}
		m.members[q.By] = now
		change.Type, change.Ready, change.Data = MemberState, now.ready, now.data
		if rapid.Bool().Draw(m.t, "part") { // what the other is, nobody says
			change.Part = q.Action
			change.Ready, change.Data = now.ready && q.Action == SetReady, map[bool]string{true: now.data}[q.Action == SetMember]
		}
	case SetData:
		if q.Expect != nil && m.dataAt > *q.Expect {
			return nil, "conflict"
		}
		if m.data == q.Data {
			return nil, "done"
		}
		m.data, m.dataAt = q.Data, m.version+1
		change.Type, change.Seat, change.Data = RoomData, 0, q.Data
	case Say:
		change.Type, change.Seat, change.Text, change.To = Said, 0, q.Text, q.To
	case Configure:
		return m.configure(q)
	default:
		return m.group(q)
	}
	return []Change{change}, "done"
}

// there returns the data that a conflict tells: what is there after the commit that refused it.
func (m *simulation) there(q Request) string {
	switch q.Action {
	case SetData:
		return m.data
	case SetMember:
		return m.members[q.By].data
	}
	return ""
}

func (m *simulation) configure(q Request) (done []Change, outcome string) {
	if q.Expect != nil && *q.Expect != m.version {
		return nil, "conflict"
	}
	for _, now := range m.members {
		if q.Settings.Capacity > 0 && (now.seat >= q.Settings.Capacity || len(m.members) > q.Settings.Capacity) {
			return nil, "refused"
		}
	}
	if m.rules == q.Settings {
		return nil, "done"
	}
	m.rules = q.Settings
	return []Change{{Type: Settings, Detail: Detail{Settings: m.rules}}}, "done"
}

// group carries out what concerns several users, who come or leave together or not at all.
func (m *simulation) group(q Request) (done []Change, outcome string) {
	if q.Action == Close {
		q.Users = nil
		for _, user := range slices.Sorted(maps.Keys(m.members)) {
			q.Users = append(q.Users, Member{User: user})
		}
	}
	wanted := 0
	for _, u := range q.Users {
		if _, member := m.members[u.User]; !member {
			wanted++
		}
	}
	if q.Action == Reserve && wanted > 0 && (m.rules.Closed || m.full(wanted)) || q.Action != Reserve && wanted > 0 {
		return nil, "refused"
	}
	for _, u := range q.Users {
		now, member := m.members[u.User]
		if q.Action == Reserve && member {
			continue
		}
		c := Change{Type: Leave, User: u.User, Seat: now.seat, Detail: Detail{Reason: q.reasonOf()}}
		if q.Action == Reserve {
			c = Change{Type: Join, User: u.User, Seat: m.freeSeat(), Detail: Detail{Away: true}}
			m.members[u.User] = membership{seat: c.Seat, away: true}
		} else {
			delete(m.members, u.User)
		}
		done = append(done, c)
	}
	if closed := m.rules; q.Action == Close && !closed.Closed {
		m.rules.Closed = true
		done = append(done, Change{Type: Settings, Detail: Detail{Settings: m.rules}})
	}
	return done, "done"
}

// removed returns why the client has lost its seat by the changes, if it has by no wish of
// its own.
func (m *simulation) removed(c *client, done []Change) string {
	if !c.events {
		return ""
	}
	for _, d := range done {
		if d.Type == Leave && d.User == c.user && d.Reason != "" {
			return d.Reason
		}
	}
	return ""
}

// heardBy returns the changes without the messages that are for others.
func heardBy(user string, all []Change) []Change {
	return slices.DeleteFunc(slices.Clone(all), func(c Change) bool {
		return c.To != nil && c.User != user && !slices.Contains(c.To, user)
	})
}
