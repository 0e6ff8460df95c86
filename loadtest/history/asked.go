package history

import "slices"

// checkAsked looks for who asked for each value that an event shows: one who was refused
// must not have set it.
func (p *replay) checkAsked() {
	for _, s := range p.log.commits() {
		for _, c := range s.changes {
			user := c.user.Value()
			switch {
			case c.kind == roomData && !p.asked(s.span, func(q *Request) bool {
				return q.Action == SetData && q.By == user && q.Data == c.detail().Data
			}):
				p.found(Phantom, s.to, user, "%q set the data of the room, and nobody asked for that", user)
			case c.kind == memberState && !p.asked(s.span, func(q *Request) bool { return q.By == user && q.makes(c.detail()) }):
				p.found(Phantom, s.to, user, "%s has another state, and did not ask for it", user)
			}
		}
	}
}

// makes reports whether the request may have made that state of its user.
func (q *Request) makes(now Detail) bool {
	return q.Action == SetReady && q.Ready == now.Ready || q.Action == SetMember && q.Data == now.Data
}

// asked reports whether such a request was acknowledged in the span, or may have been
// committed in it.
func (p *replay) asked(s span, is func(*Request) bool) bool {
	return slices.ContainsFunc(p.log.requestsIn(s), func(a answered) bool { return !a.conflict && is(&a.Request) }) ||
		slices.ContainsFunc(p.room.unanswered, func(u unanswered) bool { return u.after < s.to && is(&u.Request) })
}
