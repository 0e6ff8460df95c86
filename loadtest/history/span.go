package history

import "slices"

// moment is the room after one of the changes of a span.
type moment struct {
	print   fingerprint
	content content
	moved   int // joins and leaves of the span until then
}

// stepSpan replays versions that one event covers together, of which done are the joins and
// leaves after this version.
func (p *replay) stepSpan(s span, done changes) {
	lenient, all := !p.exact, p.log.spans[s]
	acks := p.log.acksThrough(s.to)
	var moments []moment
	if s.from == p.version {
		moments = p.applySpan(s, all, lenient)
	} else {
		for _, c := range done {
			p.apply(c.change(), s.to, lenient, false)
		}
		p.list.settleLast(all)
	}
	p.registers.commit(s, all, &p.list)
	p.list.credit(done, acks, s.to)
	p.checkAcks(acks, done, true, lenient)
	p.checkClosed(acks, done, s.to)
	p.checkLeaves(acks)
	p.checkGroups(seen{s, all}, false)
	p.checkWithin(s, len(done), moments)
	p.version = s.to
	p.reconcile(s.to, stretch{lenient: lenient})
}

// applySpan applies changes, and returns the room before them and after each.
func (p *replay) applySpan(s span, all changes, lenient bool) []moment {
	b := p.registers
	now := moment{content: content{data: b.data.hash, rules: b.rules.hash}}
	if b.host.known {
		now.content.host = b.host.hash
	}
	known := b.data.known && b.rules.known && len(b.doubt) == 0 && !b.spoilt
	moments := make([]moment, 0, len(all)+1)
	add := func() {
		now.print, now.content.states = p.list.total(), p.list.roster.state
		if !known {
			now.content = content{}
		}
		moments = append(moments, now)
	}
	add()
	for _, c := range all {
		switch said := c.detail(); c.kind {
		case moves:
			p.apply(c.change(), s.to, lenient, false)
			now.moved++
		case roomData:
			now.content.data = hashData(said.Data)
		case settings:
			now.content.rules = hashRules(&said.Settings)
		case hosts:
			now.content.host = hashHost(c.user.Value())
		default:
			p.list.settle(c)
		}
		add()
	}
	return moments
}

// checkLeaves looks for the acknowledged leaves of a span in the single events of it.
func (p *replay) checkLeaves(acks []storedAck) {
	for _, a := range acks {
		if a.kind != ackMoves || a.join || p.log.look(a.version).has&(hasCommit|disputed) != hasCommit {
			continue
		}
		left := func(c storedChange) bool { return c.kind == moves && !c.join && c.user == a.user }
		if !slices.ContainsFunc(p.log.stored(a.version), left) {
			p.room.lost(p.log.name, a.version, Change{Type: Leave, User: a.user.Value()})
		}
	}
}

// checkWithin looks for what was seen within a span among what its changes make one after the
// other.
func (p *replay) checkWithin(s span, moved int, moments []moment) {
	if p.list.tainted || !p.exact || moments == nil {
		return
	}
	first, _ := slices.BinarySearch(p.log.versions, p.version+1)
	for _, v := range p.log.versions[first:] {
		w := p.log.look(v)
		if v >= s.to {
			return
		}
		if w.has&hasPrint == 0 || w.has&disputed != 0 {
			continue
		}
		at := slices.IndexFunc(moments, func(m moment) bool { return m.fits(&w) })
		if at < 0 {
			p.found(Diverged, v, "", "%s saw what the changes up to version %d never make", p.room.ledger.observerName(w.listBy), s.to)
			return
		}
		moments = moments[at:]
		p.reached[v] = p.list.changed - moved + moments[0].moved
	}
}

// fits reports whether the witness may have seen the room at that moment.
func (m *moment) fits(w *witness) bool {
	now := w.content
	now.absent = 0
	return m.print == w.print() && (m.content == content{} || m.content.differs(now) == "")
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
