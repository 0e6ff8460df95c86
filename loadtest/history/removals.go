package history

import (
	"slices"
)

// checkRemovals looks for who removed each user who did not leave by its own wish, and
// compares what the user was told.
func (p *replay) checkRemovals() {
	commits := p.log.commits()
	byUser := make(map[string][]seenRemoval)
	for _, s := range commits {
		times := make(map[ousted]int) // that a user was removed so in this event
		for _, c := range s.changes {
			said := c.detail()
			if c.kind != moves || c.join || !removes(said.Reason) {
				continue
			}
			user := c.user.Value()
			byUser[user] = append(byUser[user], seenRemoval{s.span, said.Reason, said.Target})
			so := ousted{user: user, reason: said.Reason, target: said.Target}
			if times[so]++; p.removersOf(user, said, s.span) < times[so] {
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

// firstLeave returns why the membership ended of which a user was told that it did. It returns "" if
// that was by the user's own wish, or came at a version that nobody saw: the leave that was seen first
// may then be of a later membership.
func (p *replay) firstLeave(commits []seen, o ousted) string {
	known := o.after
	for _, s := range commits {
		if s.to <= o.after {
			continue
		}
		if s.from != known || s.to != s.from+1 {
			return ""
		}
		known = s.to
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

// ousted is a user who was told that it had lost its seat.
type ousted struct {
	user   string
	reason string
	target string
	epoch  string
	after  uint64 // it was removed above this version
	late   bool   // of a membership that it had not heard of: it was moved into the room, or its join was not answered
}

// removes reports whether somebody with that reason left who did not ask for it.
func removes(reason string) bool { return reason == Kicked || reason == Closed || reason == Moved }

// Lost records the server's message that this connection has no seat in the room any
// more, and why: Kicked, Closed, Moved into the room target, Replaced, or an error. No event of the
// room may follow until the connection joins or watches it again.
func (v *View) Lost(reason, target string) {
	if removes(reason) || v.member && reason != Replaced {
		v.room.oust(ousted{v.user, reason, target, v.epoch, v.since, v.arrives || !v.member && v.unsure > 0})
	}
	if v.member && !removes(reason) && reason != Replaced {
		v.Unknown(Leave) // the client may not know its version
	}
	v.synced, v.member, v.arrives, v.removed = false, false, false, ""
}

// Gone records that a leave was refused because the user is not in the room, which ends the
// membership, too. Lost may follow.
func (v *View) Gone() {
	if v.member {
		v.Unknown(Leave)
	}
	v.synced, v.member = false, false
}

// Arrives records that the server said that it moves the user into this room: by the
// message of another room that the user had lost it. A snapshot with the user has to follow.
func (v *View) Arrives() { v.arrives = true }

// arrive makes the user a member by the snapshot that follows a move.
func (v *View) arrive(list List) {
	v.arrives = false
	if seat, there := v.roster.Of[v.user]; there {
		v.member, v.since = true, list.Version
	} else {
		v.room.lost(list.Epoch, list.Version, Change{Type: Join, User: v.user, Seat: seat})
	}
}

// needLost reports that the server removed the user and goes on without saying so.
func (v *View) needLost(version uint64) {
	if v.removed != "" {
		v.report(Diverged, version, "%s was %s, and goes on without having lost the room", v.user, v.removed)
		v.removed = ""
	}
}

func (r *roomLog) oust(o ousted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ousted = append(r.ousted, o)
}
