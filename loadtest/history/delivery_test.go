package history

import (
	"slices"

	"pgregory.net/rapid"
)

// deliver delivers the first message, perhaps merged with later ones.
func (m *model) deliver(c *client) {
	if len(c.queue) == 0 {
		return
	}
	s := c.queue[0]
	c.queue = c.queue[1:]
	for s.what == "changed" && len(c.queue) > 0 && c.queue[0].what == "changed" &&
		c.queue[0].event.From == s.event.Version && rapid.Bool().Draw(m.t, "merge") {
		next := c.queue[0].event
		s.event.Changes = append(slices.Clone(s.event.Changes), next.Changes...)
		s.event.Version = next.Version
		c.queue = c.queue[1:]
	}
	if s.what == "changed" && rapid.IntRange(0, 9).Draw(m.t, "snapshot") == 0 {
		users := m.lists[s.event.Version]
		s = step{user: c.user, session: c.session, what: "snapshot", list: List{"e", s.event.Version, len(users), users}}
	}
	if s.what != "changed" && s.what != "snapshot" {
		c.waits = false
	}
	m.trace = append(m.trace, s)
}

// giveUp ends a request without a reply. The server may serve it later, or has done so.
func (m *model) giveUp(c *client) {
	if !c.waits {
		return
	}
	c.waits = false
	for _, r := range m.pending {
		if r.c == c && !r.given && r.session == c.session {
			r.given = true
			m.unknown(c, r.action)
			return
		}
	}
	at := slices.IndexFunc(c.queue, func(s step) bool { return s.what != "changed" })
	lost := c.queue[at]
	if c.queue = slices.Delete(c.queue, at, at+1); lost.what == "joined" {
		m.unknown(c, Join)
	} else if lost.what == "left" {
		m.unknown(c, Leave)
	}
}

func (m *model) unknown(c *client, action string) {
	if action != "users" {
		m.trace = append(m.trace, step{user: c.user, session: c.session, what: "unknown", action: action})
	}
}

// cut breaks the connection; the client comes back on a new one.
func (m *model) cut(c *client) {
	m.giveUp(c)
	m.trace = append(m.trace, step{user: c.user, session: c.session, what: "cut"})
	m.sessions++
	c.session, c.queue, c.events = m.sessions, nil, false
}

// withdraw drops a request whose client has given up.
func (m *model) withdraw() {
	m.pending = slices.DeleteFunc(m.pending, func(r *request) bool { return r.given || r.session != r.c.session })
}

// prove feeds the trace to views and checks it.
func (m *model) prove(trace []step, final RoomState) *Violations {
	l := NewLedger(Options{Capacity: m.capacity})
	l.budget = m.budget
	views := make(map[int]*View)
	for _, s := range trace {
		v := views[s.session]
		if v == nil {
			v = l.View("r", s.user, s.user)
			views[s.session] = v
		}
		switch s.what {
		case "joined":
			v.Joined(s.seat, s.list)
		case "left":
			v.Left(s.list.Epoch, s.list.Version, s.list.Count)
		case "listed":
			v.Listed(s.list)
		case "snapshot":
			v.Snapshot(s.list)
		case "changed":
			v.Changed(s.event)
		case "unknown":
			v.Unknown(s.action)
		case "cut":
			v.Cut()
		}
	}
	l.Check(map[string]RoomState{"r": final})
	return l.Violations()
}
