package history

// stretch is what reconcile must know of the versions that led to a list.
type stretch struct {
	from    uint64   // exclusive
	missing uint64   // versions that nobody acknowledged or saw
	unseen  bool     // no event covers it
	lenient bool     // unknown outcomes may have a part in it
	pool    int      // how many of those there were before it
	left    []Member // by acknowledgements in it, with the seat they had
}

// stepUnseen replays versions of which nobody saw the event, up to the first at
// which the list is known again, or which an event builds on. What was
// acknowledged in them has happened; unknown outcomes may have come on top.
func (p *replay) stepUnseen(versions []uint64) {
	s := stretch{from: p.version, unseen: true, lenient: len(p.pool) > 0 || !p.exact, pool: p.pool.size()}
	clear(p.busy)
	for _, v := range versions {
		s.missing += v - p.version - 1
		acks := p.takeAcks(v)
		if len(acks) == 0 {
			s.missing++
		}
		p.applyAcks(acks, v, &s)
		p.version = v
		_, span := p.next[v]
		if len(p.pool) == 0 || v == p.final.Version || span ||
			p.e.look(v).has&hasPrint != 0 || p.e.look(v+1).has&hasCommit != 0 {
			break
		}
	}
	p.reconcile(p.version, s)
}

// applyAcks does what was acknowledged at one version. The order within a batch
// is not known; leaves first is the one in which no seat is taken twice.
func (p *replay) applyAcks(acks []storedAck, v uint64, s *stretch) {
	contested := p.e.look(v).has&disputed != 0
	p.split = p.split || contested
	for _, a := range acks {
		user := a.user.Value()
		p.busy[user] = true
		if seat, there := p.roster.seats[user]; !a.join {
			p.apply(Change{Leave, user, 0}, v, true, contested)
			if there {
				s.left = append(s.left, Member{user, seat})
			}
		}
	}
	for _, a := range acks {
		user := a.user.Value()
		seat, there := p.roster.seats[user]
		switch {
		case !a.join || there && seat == int(a.seat):
			// One more join of a member is answered without a change.
		case there && !p.pool.can(user, Leave, v):
			if !contested {
				p.found(Diverged, v, user, "%s's join was acknowledged on seat %d, but %s held seat %d", user, a.seat, user, seat)
			}
			p.tainted, p.settled[user] = true, true
		default:
			p.apply(Change{Join, user, int(a.seat)}, v, true, contested)
		}
	}
}

// reconcile compares the replayed list with the one that was seen at v.
func (p *replay) reconcile(v uint64, s stretch) {
	w := p.e.look(v)
	seen, want := w.has&hasPrint != 0, w.print()
	quiet := p.tainted || w.has&disputed != 0
	if s.lenient && v == p.final.Version && (!seen || want == fingerprintOf(p.final.Users)) && !quiet {
		// The whole list is known here, so nothing needs to be guessed.
		p.compareLists(true)
		p.done = true
		seen, want = true, p.total()
	} else if s.lenient && seen && !quiet && want != p.total() {
		if tooMany := p.search(want, v); tooMany {
			p.accept(want)
			p.unsure = true
		}
	}
	if s.missing > p.reach(v, s, seen) {
		p.found(VersionGap, s.from+1, "", "%d versions from here to %d are explained by nothing that was told", s.missing, v)
		quiet = true
	}
	switch {
	case !seen:
		p.tainted = quiet
		p.exact = p.exact && (!s.unseen || len(p.pool) == 0)
		if w.has&hasCount != 0 && p.exact && !quiet && p.total().count != int(w.count) {
			p.found(Diverged, v, "", "%s was told a count of %d, the history makes it %d", p.l.observerName(w.by), w.count, p.total().count)
		}
		return
	case want != p.total() && !quiet && !p.lostAck(want, s):
		p.found(Diverged, v, "", "%s sees %d users, which is not the list that the history makes (%d users)",
			p.l.observerName(w.by), want.count, p.total().count)
	}
	p.accept(want)
	p.tainted = false
	p.exact = p.drift == fingerprint{}
}

// reach is how many versions unknown outcomes can explain in the stretch: one for
// each that was found committed in it, and those that leave no trace in a list.
func (p *replay) reach(v uint64, s stretch, seen bool) uint64 {
	if s.missing == 0 {
		return 0
	}
	explained := s.pool - p.pool.size()
	if !seen || p.unsure {
		return uint64(explained + p.pool.count(Join, v) + p.pool.count(Leave, v))
	}
	return uint64(explained + p.pool.reach(v, p.roster.seats, p.busy))
}

// lostAck looks for one action without which the list is the one that was seen,
// and reports that it was lost: the join of anyone in the room, or a leave that
// was acknowledged in the stretch.
func (p *replay) lostAck(want fingerprint, s stretch) bool {
	now := p.total()
	for user, seat := range p.roster.seats {
		if now.without(user, seat) == want {
			p.lost(p.last[user].version, Change{Join, user, seat})
			p.roster.drop(user)
			return true
		}
	}
	for _, a := range s.left {
		if _, there := p.roster.seats[a.User]; !there && now.with(a.User, a.Seat) == want {
			p.lost(p.last[a.User].version, Change{Leave, a.User, a.Seat})
			p.roster.put(a.User, a.Seat)
			return true
		}
	}
	return false
}

// accept takes the list that was seen as the true one, so that one difference is
// not found again at each later version.
func (p *replay) accept(want fingerprint) {
	p.drift = fingerprint{want.sum - p.roster.print.sum, want.count - p.roster.print.count}
}

// total is the fingerprint of the list as it must be seen at the version.
func (p *replay) total() fingerprint {
	return fingerprint{p.roster.print.sum + p.drift.sum, p.roster.print.count + p.drift.count}
}
