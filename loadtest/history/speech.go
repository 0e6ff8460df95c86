package history

import (
	"slices"
	"unique"
)

// speech is the messages of an epoch that are not for everybody, and private data. The other messages are in the
// commits.
type speech struct {
	heard map[observer][]hearing
	users map[observer]string
}

// hearing is versions of which an observer got all events, and the private messages in them.
type hearing struct {
	span
	messages []heardMessage
}

type heardMessage struct {
	span
	from string
	what unique.Handle[Detail]
}

// hear adds an event with its private messages.
func (s *speech) hear(o observer, user string, ev Event, private []Change) {
	if s.heard == nil {
		s.heard, s.users = make(map[observer][]hearing), make(map[observer]string)
	}
	all := s.heard[o]
	if n := len(all); n == 0 || all[n-1].to != ev.From {
		all = append(all, hearing{span: span{ev.From, ev.From}})
		s.heard[o], s.users[o] = all, user
	}
	last := &all[len(all)-1]
	last.to = ev.Version
	for _, c := range private {
		last.messages = append(last.messages, heardMessage{span{ev.From, ev.Version}, c.User, unique.Make(c.Detail)})
	}
}

// byUser returns what each user heard.
func (s *speech) byUser() map[string][]hearing {
	users := make(map[string][]hearing)
	for o, all := range s.heard {
		users[s.users[o]] = append(users[s.users[o]], all...)
	}
	return users
}

// says returns the request's message as a change has it.
func (q *Request) says() Detail { return Detail{Text: q.Text, Data: q.Data} }

// checkSpeech looks for each acknowledged message where it must be, and for who said each
// message.
func (p *replay) checkSpeech() {
	heard := p.log.heard.byUser()
	for _, a := range p.log.requests {
		p.checkDeals(a, heard)
		if a.Action == Say && a.To != nil {
			p.checkWhisper(a, a.By, heard[a.By])
			for _, user := range a.To {
				if user != a.By {
					p.checkWhisper(a, user, heard[user])
				}
			}
		}
	}
	for _, s := range p.log.commits() {
		p.checkSaid(s)
	}
	for user, all := range heard {
		for _, h := range all {
			for _, m := range h.messages {
				p.checkOverheard(user, m)
			}
		}
	}
}

// checkSaid compares the messages for everybody that an event shows with the requests.
func (p *replay) checkSaid(s seen) {
	for _, a := range p.log.requestsIn(s.span) {
		if a.Action == Say && a.To == nil && !slices.ContainsFunc(s.changes, func(c storedChange) bool { return c.says(a.By, a.says()) }) {
			p.found(Lost, a.Version, a.By, "%q said something, which is not in its version", a.By)
		}
	}
	for i, c := range s.changes {
		if c.kind != said {
			continue
		}
		by, what := c.user.Value(), c.detail()
		if n := p.sayings(by, what, s.span, ""); n == 0 {
			p.found(Phantom, s.to, by, "a message of %q, who did not say it there", by)
		} else if slices.ContainsFunc(s.changes[:i], func(c storedChange) bool { return c.says(by, what) }) && n < 2 {
			p.found(Duplicate, s.to, by, "a message of %q came twice", by)
		}
	}
}

func (c *storedChange) says(by string, what Detail) bool {
	return c.kind == said && c.user.Value() == by && c.detail() == what
}

// sayings returns how many requests may have been that message to the user, or to
// everybody if user is empty.
func (p *replay) sayings(by string, what Detail, s span, user string) (n int) {
	is := func(q *Request) bool {
		to := q.To == nil && user == "" || user != "" && (slices.Contains(q.To, user) || q.To != nil && q.By == user)
		return q.Action == Say && q.By == by && to && q.says() == what
	}
	return p.possible(is, s)
}

// possible returns how many requests are so, and may have been committed in these versions.
func (p *replay) possible(is func(*Request) bool, s span) (n int) {
	for _, a := range p.log.requestsIn(s) {
		if is(&a.Request) {
			n++
		}
	}
	for i := range p.room.unanswered {
		if u := &p.room.unanswered[i]; u.after < s.to && is(&u.Request) {
			n++
		}
	}
	return n
}

// checkWhisper checks that a user whom an acknowledged message was for has it once, if the
// user got the events of its version.
func (p *replay) checkWhisper(a answered, user string, heard []hearing) {
	p.checkHeard(a, user, a.By, a.says(), heard)
}

// checkHeard does that for what an acknowledged request tells a user.
func (p *replay) checkHeard(a answered, user, from string, what Detail, heard []hearing) {
	for _, h := range heard {
		if !h.has(a.Version) {
			continue
		}
		n := 0
		for _, m := range h.messages {
			if m.has(a.Version) && m.from == from && m.what.Value() == what {
				n++
			}
		}
		switch {
		case n == 0:
			p.found(Lost, a.Version, user, "%q said or dealt something to %s, who did not get it", a.By, user)
		case n > 1 && n > p.tellings(from, what, h.span, user):
			p.found(Duplicate, a.Version, user, "%s got something of %q twice", user, a.By)
		}
	}
}

// checkOverheard checks that somebody said what a user got, to that user.
func (p *replay) checkOverheard(user string, m heardMessage) {
	if p.tellings(m.from, m.what.Value(), m.span, user) > 0 {
		return
	}
	p.found(Diverged, m.to, user, "%s got something of %q that nobody said or dealt to %s there", user, m.from, user)
}

// tellings returns how many requests may have told a user that.
func (p *replay) tellings(from string, what Detail, s span, user string) int {
	if what.Part == SetPrivate {
		return p.dealings(user, what, s)
	}
	return p.sayings(from, what, s, user)
}
