package history

import "slices"

// checkRemovals looks for who removed each user who did not leave by its own wish, and
// compares what the user was told.
func (p *replay) checkRemovals() {
	commits := p.log.commits()
	byUser := make(map[string][]seenRemoval)
	for _, s := range commits {
		times := make(map[string]int) // that a user was removed in this event
		for _, c := range s.changes {
			said := c.detail()
			if c.kind != moves || c.join || !removes(said.Reason) {
				continue
			}
			user := c.user.Value()
			byUser[user] = append(byUser[user], seenRemoval{s.span, said.Reason, said.Target})
			if times[user]++; p.removersOf(user, said, s.span) < times[user] {
				p.found(Phantom, s.to, user, "%s was %s, and nobody asked for that", user, said.Reason)
			}
		}
		p.checkReasons(s)
	}
	for _, o := range p.room.ousted {
		if o.epoch != p.log.name {
			continue
		}
		first := p.firstLeave(commits, o)
		if o.reason == Closed && first != Closed && p.mayHaveClosed() {
			continue // a join of who did not know of the removal yet was refused, because the room was closed
		}
		if first != "" && !o.late && first != o.reason {
			p.found(Diverged, o.after, o.user, "%s was %s after version %d, and told that it was %s", o.user, first, o.after, o.reason)
			continue
		}
		if removes(o.reason) && !slices.ContainsFunc(byUser[o.user], o.matches) && !p.unseenRemoval(o) {
			p.found(Phantom, o.after, o.user, "%s was told that it was %s after version %d, and was not", o.user, o.reason, o.after)
		}
	}
}

// mayHaveClosed reports whether somebody has asked to close the room.
func (p *replay) mayHaveClosed() bool {
	closes := func(q *Request) bool { return q.Action == Close || q.Action == Configure && q.Settings.Closed }
	return slices.ContainsFunc(p.log.requests, func(a answered) bool { return closes(&a.Request) }) ||
		slices.ContainsFunc(p.room.unanswered, func(u unanswered) bool { return closes(&u.Request) })
}

// seenRemoval is a leave with such a reason.
type seenRemoval struct {
	span
	reason, target string
}

func (o *ousted) matches(r seenRemoval) bool {
	return r.to > o.after && r.reason == o.reason && r.target == o.target
}

// firstLeave returns why the membership ended of which a user was told that it did, if that
// was not by the user's own wish, and was seen.
func (p *replay) firstLeave(commits []seen, o ousted) string {
	for _, s := range commits {
		if s.to <= o.after || s.to != s.from+1 {
			continue
		}
		if at := slices.IndexFunc(s.changes, func(c storedChange) bool { return c.kind == moves && !c.join && c.user.Value() == o.user }); at >= 0 {
			if reason := s.changes[at].detail().Reason; removes(reason) {
				return reason
			}
			return ""
		}
	}
	return ""
}

// reasonOf returns why the users leave whom the request removes.
func (q *Request) reasonOf() string {
	return map[string]string{Kick: Kicked, Close: Closed, MoveOut: Moved}[q.Action]
}

// explains reports whether the request removes the user for that reason.
func (q *Request) explains(user, reason, target string) bool {
	return q.reasonOf() == reason && (q.Action == Close || q.has(user)) && (q.Action != MoveOut || q.Target == target)
}

// removersOf returns how many requests may have removed the user so.
func (p *replay) removersOf(user string, said Detail, s span) (n int) {
	for _, a := range p.log.requestsIn(s) {
		if !a.conflict && a.explains(user, said.Reason, said.Target) {
			n++
		}
	}
	for i := range p.room.unanswered {
		if u := &p.room.unanswered[i]; u.after < s.to && u.explains(user, said.Reason, said.Target) {
			n++
		}
	}
	return n
}

// unseenRemoval reports whether the user may have been removed at a version that nobody saw.
func (p *replay) unseenRemoval(o ousted) bool {
	return slices.ContainsFunc(p.log.requests, func(a answered) bool {
		return a.Version > o.after && a.explains(o.user, o.reason, o.target) && !p.log.is(a.Version, hasCommit)
	}) || slices.ContainsFunc(p.room.unanswered, func(u unanswered) bool { return u.explains(o.user, o.reason, o.target) })
}

// checkReasons compares the reasons of the leaves in a commit with the requests that were
// acknowledged there. That the users left at all is checked elsewhere.
func (p *replay) checkReasons(s seen) {
	if s.to != s.from+1 {
		return
	}
	for _, a := range p.log.requestsAt(s.to) {
		if a.conflict || a.reasonOf() == "" || a.Action == Close {
			continue
		}
		for _, m := range a.Users {
			other := ""
			right := slices.ContainsFunc(s.changes, func(c storedChange) bool {
				left := c.kind == moves && !c.join && c.user.Value() == m.User
				said := c.detail()
				if left {
					other = said.Reason
				}
				return left && said.Reason == a.reasonOf() && said.Target == a.Target && (a.Action != Kick || said.Text == a.Text)
			})
			if !right && other != "" {
				p.found(Diverged, s.to, m.User, "%s was acknowledged, and %s left for another reason (%s)", a.Action, m.User, other)
			}
		}
	}
}
