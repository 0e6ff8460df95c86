package history

import "slices"

// stepSpan replays versions that one event covers together.
func (p *replay) stepSpan(s span, done changes) {
	lenient := !p.exact
	acks := p.log.acksThrough(s.to)
	prints := []fingerprint{p.list.total()}
	for _, c := range done {
		p.apply(c.change(), s.to, lenient, false)
		prints = append(prints, p.list.total())
	}
	p.list.credit(done, acks, s.to)
	p.checkAcks(acks, done, true, lenient)
	p.checkWithin(s, done, prints)
	p.version = s.to
	p.reconcile(s.to, stretch{lenient: lenient})
}

// checkWithin looks for the lists that were seen within a span among those that
// its changes make one after the other.
func (p *replay) checkWithin(s span, done changes, prints []fingerprint) {
	if p.list.tainted || !p.exact {
		return
	}
	skipped := 0
	first, _ := slices.BinarySearch(p.log.versions, p.version+1)
	for _, v := range p.log.versions[first:] {
		w := p.log.look(v)
		if v >= s.to {
			return
		}
		if w.has&hasPrint == 0 || w.has&disputed != 0 {
			continue
		}
		at := slices.Index(prints, w.print())
		if at < 0 {
			p.found(Diverged, v, "", "%s saw a list that the changes up to version %d never make", p.room.ledger.observerName(w.listBy), s.to)
			return
		}
		skipped += at
		prints = prints[at:]
		p.reached[v] = p.list.changed - len(done) + skipped
	}
}

// overlapping finds a span that began before this version and ends after it. The rest
// of its changes must lead from the list as it is to the list seen at its end.
func (p *replay) overlapping() (s span, rest changes, found bool) {
	for _, s := range p.log.ordered {
		end, all := p.log.look(s.to), p.log.spans[s].moves()
		if s.from >= p.version {
			break
		}
		if s.to <= p.version || end.has&hasPrint == 0 {
			continue
		}
		// Counting tells where the rest begins, unless too little was seen of the
		// versions where the span began. Then it is the longest rest that fits.
		if before, ok := p.reached[s.from]; ok {
			if n := p.list.changed - before; n <= len(all) && p.list.leadsTo(all[n:], end.print()) {
				return s, all[n:], true
			}
		}
		for i := range all {
			if p.list.leadsTo(all[i:], end.print()) {
				return s, all[i:], true
			}
		}
	}
	return span{}, nil, false
}
