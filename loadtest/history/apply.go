package history

import "slices"

// takeAcks cuts off the acknowledgements up to and with version v.
func (p *replay) takeAcks(v uint64) []storedAck {
	n := 0
	for n < len(p.acks) && p.acks[n].version <= v {
		n++
	}
	taken := p.acks[:n]
	p.acks = p.acks[n:]
	return taken
}

// apply does one change in the replayed list. In a lenient place, where a commit
// may have gone unseen before it, an unknown outcome is taken for committed if
// only that makes the change possible.
func (p *replay) apply(c Change, v uint64, lenient, contested bool) {
	p.last[c.User] = action{c.Type == Join, v}
	p.changed++
	if lenient && p.settle(c, v) {
		return
	}
	for _, f := range p.roster.apply(c, p.l.capacity) {
		p.tainted = p.tainted || f.blurs()
		if !contested {
			p.report(f, v)
		}
	}
}

// settle makes the change possible with the help of unknown outcomes, if there
// are such, and says whether nothing is left to be done for it.
func (p *replay) settle(c Change, v uint64) bool {
	p.busy[c.User] = true
	_, there := p.roster.seats[c.User]
	if c.Type == Leave {
		if there || !p.pool.take(c.User, Join, v) {
			return false
		}
		// Nobody knows the seat that is free again now, nor whether the next
		// list that was seen had it taken.
		p.tainted = p.tainted || p.unsure
		p.changed++
		return true
	}
	if there && p.pool.take(c.User, Leave, v) {
		p.vacate(c.User)
	}
	if other, taken := p.roster.owner[c.Seat]; taken && other != c.User && p.pool.take(other, Leave, v) {
		p.vacate(other)
		p.last[other] = action{false, v}
	}
	return false
}

// vacate drops a user who has left unseen. If a list was accepted since then, it
// was one without the user already.
func (p *replay) vacate(user string) {
	total := p.total()
	p.busy[user] = true
	p.changed++
	p.roster.drop(user)
	if p.unsure {
		p.accept(total)
	}
}

// arrive is for a user who has joined unseen, as vacate is for one who has left.
func (p *replay) arrive(user string, seat int, v uint64) {
	total := p.total()
	p.adopt([]Change{{Join, user, seat}}, v)
	if p.unsure {
		p.accept(total)
	}
}

// credit takes the changes that were seen, and that nobody got an acknowledgement
// of, off the unknown outcomes.
func (p *replay) credit(done changes, acks []storedAck, v uint64) {
	if len(p.pool) == 0 {
		return
	}
	for _, c := range done {
		acked := slices.ContainsFunc(acks, func(a storedAck) bool { return a.user == c.user && a.join == c.join })
		if !acked {
			p.pool.take(c.user.Value(), c.change().Type, v)
		}
	}
}

// believe notes acknowledgements of a version that has more than one history, so
// that nobody counts as a phantom for having been written by the other one.
func (p *replay) believe(acks []storedAck) {
	for _, a := range acks {
		p.last[a.user.Value()] = action{a.join, a.version}
	}
}

// checkAcks looks for what was acknowledged in the changes that were seen. A
// join need not be there if the user was in the room anyway.
func (p *replay) checkAcks(acks []storedAck, done changes, span, lenient bool) {
	for _, a := range acks {
		user := a.user.Value()
		at := slices.IndexFunc(done, func(c storedChange) bool { return c.user == a.user && c.join == a.join })
		seat, there := p.roster.seats[user]
		first := slices.IndexFunc(done, func(c storedChange) bool { return c.user == a.user })
		switch {
		case span && a.join && first >= 0 && !done[first].join:
			// Was there when the span began, on a seat that nobody can tell now.
		case at >= 0 && a.join && !slices.Contains(done, storedChange{a.user, a.seat, true}):
			p.found(Diverged, a.version, user, "%s's join was acknowledged on seat %d and committed on seat %d", user, a.seat, done[at].seat)
			p.settled[user] = true
		case at >= 0:
		case !a.join:
			p.lost(a.version, Change{Leave, user, 0})
			p.settled[user] = true
		case there && seat == int(a.seat):
		case there && lenient && p.pool.can(user, Leave, a.version) && p.pool.can(user, Join, a.version):
			p.pool.take(user, Leave, a.version)
			p.vacate(user)
			p.arrive(user, int(a.seat), a.version)
		case there:
			p.found(Diverged, a.version, user, "%s's join was acknowledged on seat %d, but %s held seat %d", user, a.seat, user, seat)
			p.settled[user] = true
		case lenient && p.pool.can(user, Join, a.version):
			// Joined unseen before, and this was one more join.
			p.arrive(user, int(a.seat), a.version)
		default:
			p.lost(a.version, Change{Join, user, int(a.seat)})
			p.settled[user] = true
		}
	}
}

func (p *replay) lost(version uint64, c Change) {
	if c.Type == Join {
		p.found(Lost, version, c.User, "%s's acknowledged join is missing from the list (seat %d)", c.User, c.Seat)
	} else {
		p.found(Lost, version, c.User, "%s's acknowledged leave is missing: still in the list", c.User)
	}
}

func (p *replay) report(f fault, version uint64) {
	p.l.fault(p.room, p.e.name, version, f)
}

func (p *replay) found(kind Kind, version uint64, subject, format string, args ...any) {
	p.l.found(place{kind, p.room, p.e.name, version, subject}, version, format, args...)
}
