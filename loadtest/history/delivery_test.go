package history

import (
	"slices"

	"pgregory.net/rapid"
)

// deliver delivers the first message, perhaps merged with later ones.
func (m *simulation) deliver(c *client) {
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
		s = step{user: c.user, session: c.session, what: "snapshot", list: m.lists[s.event.Version]}
	}
	if s.what != "snapshot" && s.answers() {
		c.waits = false
	}
	m.trace = append(m.trace, s)
}

// giveUp ends a request without a reply. The server may serve it later, or has done so.
func (m *simulation) giveUp(c *client) {
	if !c.waits {
		return
	}
	c.waits = false
	for _, r := range m.pending {
		if r.c == c && !r.given && r.session == c.session {
			r.given = true
			m.unknown(c, r.action, r.q)
			return
		}
	}
	at := slices.IndexFunc(c.queue, step.answers)
	lost := c.queue[at]
	switch c.queue = slices.Delete(c.queue, at, at+1); lost.what {
	case "joined":
		m.unknown(c, Join, lost.q)
	case "left":
		m.unknown(c, Leave, lost.q)
	case "done":
		m.unknown(c, lost.q.Action, lost.q)
	}
}

// answers reports whether the message is the answer to a request.
func (s step) answers() bool { return s.what != "changed" && s.what != "lost" }

func (m *simulation) unknown(c *client, action string, q Request) {
	if action == q.Action {
		m.trace = append(m.trace, step{user: c.user, session: c.session, what: "unanswered", q: q})
	} else if action != "users" {
		m.trace = append(m.trace, step{user: c.user, session: c.session, what: "unknown", action: action})
	}
}

// cut breaks the connection; the client comes back on a new one.
func (m *simulation) cut(c *client) {
	m.giveUp(c)
	m.trace = append(m.trace, step{user: c.user, session: c.session, what: "cut"})
	m.sessions++
	c.session, c.queue, c.events = m.sessions, nil, false
}

// withdraw drops a request whose client has given up.
func (m *simulation) withdraw() {
	m.pending = slices.DeleteFunc(m.pending, func(r *request) bool { return r.given || r.session != r.c.session })
}

// prove feeds the trace to views and checks it.
func (m *simulation) prove(trace []step, final RoomState) *Violations {
	l := NewLedger(Options{})
	l.budget = m.budget
	views := make(map[int]*View)
	for _, s := range trace {
		v := views[s.session]
		if v == nil && s.session != 0 {
			v = l.View("r", s.user, s.user)
			views[s.session] = v
		}
		reply := Reply{s.list.Epoch, s.list.Version, s.there}
		switch s.what {
		case "done":
			v.Done(s.q, reply, s.list.Count)
		case "conflict":
			v.Refused(s.q, reply)
		case "unanswered":
			v.Unanswered(s.q)
		case "lost":
			v.Lost(s.action, "")
		case "admin":
			l.Done("r", s.q, reply)
		case "may leave":
			for _, u := range s.q.Users {
				l.MayLeave("r", u.User, s.list.Version)
			}
		case "admin conflict":
			l.Conflict("r", s.q, reply)
		case "admin refused":
			l.Refused("r", s.q)
		case "admin unanswered":
			l.Unanswered("r", s.q, 0)
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
