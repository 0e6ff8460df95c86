package history

// replay goes through a room's history version by version, and reports what nothing
// explains. At each version it knows the list exactly, or knows that it does not.
type replay struct {
	room  *roomLog
	log   *evidence
	final RoomState

	version   uint64
	list      estimate
	exact     bool            // list is certain at version
	split     bool            // sources contradict each other somewhere in this room
	reached   map[uint64]int  // by version, the changes applied until then
	reported  map[string]bool // users of whom a wrong seat or place is reported
	done      bool            // the final list was compared
	stored    bool            // so was what the store has beside it
	registers *registers
}

func newReplay(r *roomLog, e *epochLog, final RoomState) *replay {
	limit := r.ledger.options.Capacity
	if e.ruled {
		limit = 0 // views compare with the settings
	}
	p := &replay{
		room: r, log: newEvidence(e, final.Version), final: final,
		version: e.start, exact: true, reached: make(map[uint64]int), reported: make(map[string]bool),
		list: estimate{
			roster: newRoster(), pool: newPool(r.unknowns, e.closers(r.unanswered, r.unknowns)), last: make(map[string]action), busy: make(map[string]bool),
			capacity: limit, top: e.top, tries: r.ledger.budget,
		},
	}
	for _, f := range p.list.roster.set(e.users, p.list.capacity) {
		r.fault(e.name, e.start, f)
	}
	for user := range p.list.roster.Of {
		p.list.last[user] = action{true, e.start}
	}
	p.registers = newRegisters(r, e)
	return p
}

// run replays the whole log and compares the outcome with the final list.
func (p *replay) run() {
	if highest := p.log.highest(); p.final.Version < highest {
		p.found(Lost, highest, "", "the room stands at version %d at the end", p.final.Version)
	}
	before := p.log.acksThrough(p.version)
	p.checkAcks(before, nil, false, false)
	p.reconcile(p.version, stretch{})
	p.compareFinal()
	for i := 0; i < len(p.log.versions); {
		if p.log.versions[i] <= p.version {
			i++
			continue
		}
		p.step(p.log.versions[i:])
		p.compareFinal()
	}
	p.checkRequests()
	p.checkAsked()
	p.checkRemovals()
	p.checkSpeech()
	p.checkBans()
}

// step replays the next version, or as many as are only known together.
func (p *replay) step(versions []uint64) {
	p.reached[p.version] = p.list.changed
	pending := p.log.pending
	defer func() { p.arrive(pending[:len(pending)-len(p.log.pending)]) }()
	if p.log.is(p.version+1, hasCommit) {
		p.stepCommit()
	} else if s, ok := p.log.shortest[p.version]; ok {
		p.stepSpan(s, p.log.spans[s].moves())
	} else if s, rest, found := p.overlapping(); found {
		p.stepSpan(s, rest)
	} else {
		p.stepUnseen(versions)
	}
}

// arrive ends what could happen only while the users of acknowledged joins had not come.
func (p *replay) arrive(acks []storedAck) {
	for _, a := range acks {
		if a.kind == ackMoves && a.join {
			p.list.pool.come(a.user.Value(), a.version)
		}
	}
}

// stepCommit replays a version of which an event was seen: nothing else can have
// happened in it.
func (p *replay) stepCommit() {
	v := p.version + 1
	contested, lenient := p.log.is(v, disputed), !p.exact
	all, acks := p.log.stored(v), p.log.acksThrough(v)
	done := all.moves()
	if acks = onFirstSeats(acks, all); !contested {
		p.checkReseated(all, v)
	}
	p.list.creditAways(all, v)
	for _, c := range all {
		if c.kind == moves {
			p.apply(c.change(), v, lenient, contested)
		} else {
			p.list.settle(c)
		}
	}
	if !contested {
		p.checkRights(all, v)
	}
	p.registers.commit(span{p.version, v}, all, &p.list)
	p.list.credit(done, acks, v)
	if contested {
		p.split = true
		p.list.believe(acks)
	} else {
		p.checkAcks(acks, done, false, lenient)
		p.checkClosed(acks, done, v)
	}
	p.checkGroups(seen{span{p.version, v}, all}, p.exact && !contested && !p.list.tainted)
	p.version = v
	p.reconcile(v, stretch{lenient: lenient})
}

// apply applies one change, and reports what cannot be right about it unless sources
// contradict each other about the version.
func (p *replay) apply(c Change, v uint64, lenient, contested bool) {
	for _, f := range p.list.apply(c, v, lenient) {
		if !contested {
			p.room.fault(p.log.name, v, f)
		}
	}
}

func (p *replay) found(kind Kind, version uint64, subject, format string, args ...any) {
	p.room.found(kind, p.log.name, version, subject, format, args...)
}
