package history

import (
	"slices"

	"roomd/loadtest/internal/model"
)

// checkAcks looks for what was acknowledged in the changes that were seen. An
// acknowledged join need not be among them if the user was in the room anyway.
func (p *replay) checkAcks(acks []storedAck, done changes, span, lenient bool) {
	for _, a := range acks {
		if a.kind != ackMoves {
			continue
		}
		user := a.user.Value()
		at := slices.IndexFunc(done, func(c storedChange) bool { return c.user == a.user && c.join == a.join })
		first := slices.IndexFunc(done, func(c storedChange) bool { return c.user == a.user })
		switch {
		case span && a.join && first >= 0 && !done[first].join:
			// The user was there when the span began, on a seat that nobody knows.
		case at >= 0 && a.join && !slices.ContainsFunc(done, func(c storedChange) bool { return c.user == a.user && c.join && c.seat == a.seat }):
			p.found(Diverged, a.version, user, "%s's join was acknowledged on seat %d and committed on seat %d", user, a.seat, done[at].seat)
			p.reported[user] = true
		case at >= 0:
		case !a.join:
			p.room.lost(p.log.name, a.version, Change{Type: Leave, User: user, Seat: 0})
			p.reported[user] = true
		default:
			p.checkJoin(a, user, lenient)
		}
	}
}

// checkJoin checks an acknowledged join that no change shows: the user was in the room,
// or came in unseen.
func (p *replay) checkJoin(a storedAck, user string, lenient bool) {
	s := &p.list
	seat, there := s.roster.Of[user]
	mayJoin := lenient && s.pool.has(user, Join, a.version)
	switch {
	case there && seat == int(a.seat):
	case there && mayJoin && s.pool.has(user, Leave, a.version):
		s.pool.use(user, Leave, a.version)
		s.vacate(user)
		s.arrive(user, int(a.seat), a.version)
	case there:
		p.anotherSeat(a, user, seat)
	case mayJoin: // joined unseen before, and this was one more join
		s.arrive(user, int(a.seat), a.version)
	default:
		p.room.lost(p.log.name, a.version, Change{Type: Join, User: user, Seat: int(a.seat)})
		p.reported[user] = true
	}
}

// anotherSeat reports that a member's join was acknowledged on a seat that the member
// does not hold.
func (p *replay) anotherSeat(a storedAck, user string, seat int) {
	p.found(Diverged, a.version, user, "%s's join was acknowledged on seat %d, but %s held seat %d", user, a.seat, user, seat)
	p.reported[user] = true
}

// applyAcks applies what was acknowledged at one version. Nobody knows the order within
// a batch; leaves first is the one in which no seat is taken twice.
func (p *replay) applyAcks(acks []storedAck, v uint64, s *stretch) {
	contested := p.log.is(v, disputed)
	p.split = p.split || contested
	seats := p.list.roster.Of
	acks = slices.DeleteFunc(slices.Clone(acks), func(a storedAck) bool { return a.kind != ackMoves })
	for _, a := range acks {
		user := a.user.Value()
		p.list.busy[user] = true
		if seat, there := seats[user]; !a.join {
			p.apply(Change{Type: Leave, User: user, Seat: 0}, v, true, contested)
			if there {
				s.left = append(s.left, Member{User: user, Seat: seat})
			}
		}
	}
	for _, a := range acks {
		user := a.user.Value()
		seat, there := seats[user]
		switch {
		case !a.join || there && seat == int(a.seat):
			// One more join of a member is answered without a change.
		case there && !p.list.pool.has(user, Leave, v):
			if !contested {
				p.anotherSeat(a, user, seat)
			}
			p.list.tainted, p.reported[user] = true, true
		default:
			p.apply(Change{Type: Join, User: user, Seat: int(a.seat)}, v, true, contested)
		}
	}
}

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
			case c.kind == reseat && !p.asked(s.span, func(q *Request) bool { return q.Action == Shuffle || q.Action == Swap && q.has(user) }):
				p.found(Phantom, s.to, user, "%s has another seat, and nobody asked for that", user)
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

// checkBans looks for joins that were acknowledged in spite of a ban. A join may be
// answered later than it was committed, but not before, so a join that was answered before
// the ban ended was committed under it.
func (p *replay) checkBans() {
	for _, ban := range p.log.requests {
		if ban.Action != Kick || ban.BannedUntil == 0 || ban.conflict {
			continue
		}
		for _, m := range ban.Users {
			lifted := p.lifted(m.User, ban.Version)
			for _, a := range p.log.acks {
				if a.kind == ackMoves && a.join && a.version > ban.Version && a.version < lifted && model.Banned(a.at, ban.BannedUntil) && a.user.Value() == m.User {
					p.found(Intruder, a.version, m.User, "%s came in, and was banned at version %d", m.User, ban.Version)
				}
			}
		}
	}
}

// lifted returns the version at which a ban after v may have been lifted.
func (p *replay) lifted(user string, v uint64) uint64 {
	first := ^uint64(0)
	for _, a := range p.log.requests {
		if a.Action == Unban && a.has(user) && a.Version >= v {
			first = min(first, a.Version)
		}
	}
	if slices.ContainsFunc(p.room.unanswered, func(u unanswered) bool { return u.Action == Unban && u.has(user) }) {
		return v
	}
	return first
}
