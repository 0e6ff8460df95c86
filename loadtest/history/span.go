package history

import "slices"

// stepSpan replays versions of which one event was seen for all.
func (p *replay) stepSpan(s span, done changes) {
	lenient := !p.exact
	acks := p.takeAcks(s.to)
	prints := []fingerprint{p.total()}
	for _, c := range done {
		p.apply(c.change(), s.to, lenient, false)
		prints = append(prints, p.total())
	}
	p.credit(done, acks, s.to)
	p.checkAcks(acks, done, true, lenient)
	p.checkWithin(s, done, prints)
	p.version = s.to
	p.reconcile(s.to, stretch{lenient: lenient})
}

// checkWithin looks for the lists that were seen within a span among those that
// its changes make one after the other.
func (p *replay) checkWithin(s span, done changes, prints []fingerprint) {
	if p.tainted || !p.exact {
		return
	}
	skipped := 0
	first, _ := slices.BinarySearch(p.versions, p.version+1)
	for _, v := range p.versions[first:] {
		w := p.e.look(v)
		if v >= s.to {
			return
		}
		if w.has&hasPrint == 0 || w.has&disputed != 0 {
			continue
		}
		at := slices.Index(prints, w.print())
		if at < 0 {
			p.found(Diverged, v, "", "%s saw a list that the changes up to version %d never make", p.l.observerName(w.by), s.to)
			return
		}
		skipped += at
		prints = prints[at:]
		p.reached[v] = p.changed - len(done) + skipped
	}
}

// overlapping finds a span that leads on from the middle: the rest of its changes
// must lead from the list as it is to the one seen at the end of the span.
func (p *replay) overlapping() (s span, rest changes, found bool) {
	for _, s := range p.spans {
		end, all := p.e.look(s.to), p.e.spans[s]
		if s.from >= p.version {
			break
		}
		if s.to <= p.version || end.has&hasPrint == 0 {
			continue
		}
		// Where it goes on is a matter of counting, unless too little was seen of
		// what it began with. Then it is the longest rest that can be.
		if before, known := p.reached[s.from]; known {
			if n := p.changed - before; n <= len(all) && p.leadsTo(all[n:], end.print()) {
				return s, all[n:], true
			}
		}
		for i := range all {
			if p.leadsTo(all[i:], end.print()) {
				return s, all[i:], true
			}
		}
	}
	return span{}, nil, false
}

// leadsTo says whether the changes make the list that was seen at the end. Those
// that cannot be made do not, for the sum then counts someone twice.
func (p *replay) leadsTo(rest changes, end fingerprint) bool {
	now, moved := p.total(), make(map[string]int)
	for _, c := range rest {
		user := c.user.Value()
		if c.join {
			moved[user] = int(c.seat)
			now = now.with(user, int(c.seat))
			continue
		}
		seat, known := moved[user]
		if !known {
			seat = p.roster.seats[user]
		}
		now = now.without(user, seat)
	}
	return now == end
}
