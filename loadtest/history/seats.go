package history

import "slices"

// Members change places by a Swap or a Shuffle. An event says who sits where from then on. Of a version that nobody saw
// an administrator's answer says so.

// reseats reports whether the request gives members other seats.
func (q *Request) reseats() bool { return q.Action == Swap || q.Action == Shuffle }

// checkReseated looks for the other seats of those who changed places by requests that were acknowledged at v: both of a
// swap, and all who were there before and behind a shuffle. The replay is before that version.
func (p *replay) checkReseated(all changes, v uint64) {
	changed := func(user string, kind stays) bool {
		return slices.ContainsFunc(all, func(c storedChange) bool { return c.kind == kind && c.user.Value() == user })
	}
	for _, a := range p.log.requestsAt(v) {
		var users []string
		switch a.Action {
		case Swap:
			users = []string{a.Users[0].User, a.Users[1].User}
		case Shuffle:
			for user := range p.list.roster.Of {
				if p.exact && !p.list.tainted && !changed(user, moves) {
					users = append(users, user)
				}
			}
		}
		for _, user := range users {
			if len(users) > 1 && !changed(user, reseat) {
				p.found(Lost, v, user, "a %s was acknowledged, and %s has no other seat", a.Action, user)
			}
		}
	}
}

// checkRights looks for requests that were acknowledged at v, and that only the host may make. The replay is before that
// version.
func (p *replay) checkRights(all changes, v uint64) {
	for _, a := range p.log.requestsAt(v) {
		became := func(c storedChange) bool { return c.kind == hosts && c.user.Value() == a.By }
		if a.By == "" || !a.governs() || !p.registers.host.known || p.registers.host.hash == hashHost(a.By) || slices.ContainsFunc(all, became) {
			continue
		}
		p.found(Intruder, v, a.By, "%s of %s was acknowledged, who was not the host", a.Action, a.By)
	}
}

// governs reports whether only the host may ask for that, and an administrator.
func (q *Request) governs() bool {
	return q.reseats() || q.Action == Kick || q.Action == Close || q.Action == Configure
}

// reseatUnseen gives members the seats that they have by an administrator's answer, at a version that nobody saw.
func (p *replay) reseatUnseen(v uint64) {
	for _, a := range p.log.requestsAt(v) {
		if !a.reseats() || a.By != "" {
			continue
		}
		for _, m := range a.Users {
			if seat, there := p.list.roster.Of[m.User]; there && seat != m.Seat {
				p.list.roster.reseat(m.User, m.Seat)
			}
		}
	}
}

// mayReseat reports whether members may have changed places up to v without a word of who sits where.
func (p *replay) mayReseat(v uint64) bool {
	return slices.ContainsFunc(p.room.unanswered, func(u unanswered) bool { return u.reseats() && u.after < v }) ||
		slices.ContainsFunc(p.log.requests, func(a answered) bool {
			return a.reseats() && a.By != "" && a.Version <= v && !p.log.is(a.Version, hasCommit)
		})
}

// onFirstSeats returns the acknowledgements with the seats of joins, where somebody changed places in the same version: an
// answer has the last of both.
func onFirstSeats(acks []storedAck, all changes) []storedAck {
	for i, a := range acks {
		if !a.join || !slices.ContainsFunc(all, func(c storedChange) bool { return c.kind == reseat && c.user == a.user }) {
			continue
		}
		if at := slices.IndexFunc(all, func(c storedChange) bool { return c.join && c.user == a.user }); at >= 0 {
			acks = slices.Clone(acks)
			acks[i].seat = all[at].seat
		}
	}
	return acks
}
