package history

// stretch is what reconcile must know of the versions that led to a list.
type stretch struct {
	from    uint64   // exclusive
	missing uint64   // versions that nobody acknowledged or saw
	unseen  bool     // no event covers it
	lenient bool     // unknown requests may have been committed in it
	pool    int      // how many of those there were before it
	left    []Member // by acknowledgements in it, with the seat they had
}

// stepUnseen replays versions of which nobody saw the event, up to the first at
// which the list was seen again, or which an event builds on. What was acknowledged
// in them has happened; unknown requests may have been committed besides.
func (p *replay) stepUnseen(versions []uint64) {
	pool := p.list.pool
	s := stretch{from: p.version, unseen: true, lenient: len(pool) > 0 || !p.exact, pool: pool.size()}
	clear(p.list.busy)
	first := p.version
	for _, v := range versions {
		s.missing += v - p.version - 1
		acks := p.log.acksThrough(v)
		if len(acks) == 0 {
			s.missing++
		}
		p.applyAcks(acks, v, &s)
		p.vacateClosed(acks, v)
		p.reseatUnseen(v)
		p.registers.arrivals(acks, v)
		p.registers.unseen(v, &p.list)
		p.version = v
		_, span := p.log.shortest[v]
		if len(pool) == 0 || v == p.final.Version || span || p.log.is(v, hasPrint) || p.log.is(v+1, hasCommit) {
			break
		}
	}
	p.registers.markUnobserved(span{first, p.version})
	p.reconcile(p.version, s)
}

// reconcile compares the replayed list with the one that was seen at v.
func (p *replay) reconcile(v uint64, s stretch) {
	w, list := p.log.look(v), &p.list
	seen, want := w.has&hasPrint != 0, w.print()
	quiet := list.tainted || w.has&disputed != 0
	if s.lenient && v == p.final.Version && (!seen || want == fingerprintOf(p.final.Users)) && !quiet {
		// The whole list is known here, so nothing needs to be guessed.
		p.compareLists(true)
		p.done = true
		seen, want = true, list.total()
	} else if s.lenient && seen && !quiet && want != list.total() {
		if tooMany := list.search(want, v); tooMany || want != list.total() && p.mayReseat(v) {
			list.accept(want)
			list.unsure = true
		}
	}
	if s.missing > s.explainable(list, v, seen) {
		p.found(VersionGap, s.from+1, "", "%d versions from here to %d are explained by no reply or event", s.missing, v)
		quiet = true
	}
	observer := p.room.ledger.observerName
	if !seen {
		list.tainted = quiet
		p.exact = p.exact && (!s.unseen || len(list.pool) == 0)
		if w.has&hasCount != 0 && p.exact && !quiet && list.total().count != int(w.count) {
			p.found(Diverged, v, "", "%s got a count of %d, the history makes %d", observer(w.listBy), w.count, list.total().count)
		}
		return
	}
	if want != list.total() && !quiet {
		if c, found := list.undoOne(want, s.left); found {
			p.room.lost(p.log.name, list.last[c.User].version, c)
		} else {
			p.found(Diverged, v, "", "%s sees %d users, which is not the list that the history makes (%d users)",
				observer(w.listBy), want.count, list.total().count)
		}
	}
	list.accept(want)
	list.tainted = false
	p.exact = list.drift == fingerprint{}
	if w.has&(hasPrint|disputed) == hasPrint {
		p.compareContent(v, w.content, observer(w.listBy), quiet)
	}
}

// explainable returns how many versions of the stretch unknown requests can explain:
// those that the replay found committed in it, and those that leave no trace in a list.
func (s stretch) explainable(list *estimate, v uint64, seen bool) uint64 {
	if s.missing == 0 {
		return 0
	}
	explained := s.pool - list.pool.size()
	if !seen || list.unsure {
		return uint64(explained + list.pool.count(Join, v) + list.pool.count(Leave, v) + list.pool.count(Away, v) + list.pool.count(Back, v))
	}
	return uint64(explained + list.pool.traceless(v, list.roster.Of, list.busy))
}
