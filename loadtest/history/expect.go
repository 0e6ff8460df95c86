package history

import "slices"

// checkRequests compares what was acknowledged or refused with what the history shows of
// its register: data, states and settings.
func (p *replay) checkRequests() {
	for _, a := range p.log.requests {
		t, hash, ok := a.sets()
		switch {
		case !ok:
		case a.conflict:
			p.checkConflict(a, t)
		default:
			p.checkPresent(a, t, hash)
			p.checkExpected(a, t, hash)
		}
	}
}

// checkPresent looks for an acknowledged value at its version.
func (p *replay) checkPresent(a answered, t register, hash uint64) {
	b := p.registers
	writes, seen := b.writes[t], p.log.is(a.Version, hasCommit)
	shown := seen
	for i := b.next(t, a.Version-1); i < len(writes) && writes[i].from < a.Version; i++ {
		if seen && writes[i].span != (span{a.Version - 1, a.Version}) {
			continue // of other versions
		}
		if writes[i].hash == hash && writes[i].how < byMove {
			return
		}
		shown = shown || writes[i].how == byEvent
	}
	// Setting the value that is there commits nothing.
	if was := b.at(t, a.Version-1); !was.known || was.hash == hash {
		return
	}
	if now := b.at(t, a.Version); shown || now.known && now.hash != hash {
		p.found(Lost, a.Version, a.By, "%s of %q was acknowledged, and is not in its version", a.Action, a.By)
	}
}

// checkExpected looks for what an acknowledged compare-and-set should not have replaced.
func (p *replay) checkExpected(a answered, t register, hash uint64) {
	if a.Expect == nil {
		return
	}
	e, b := *a.Expect, p.registers
	wrong := func(format string, args ...any) {
		p.found(Conflict, a.Version, a.By, "%s of %q expected version %d: "+format, append([]any{a.Action, a.By, e}, args...)...)
	}
	if a.ExpectEpoch != "" && a.ExpectEpoch != a.Epoch {
		wrong("of another epoch")
		return
	}
	if t.what == Configure { // exactly that version
		if a.Version != e && a.Version != e+1 {
			wrong("it was done at version %d", a.Version)
		}
		for _, other := range p.log.requestsAt(a.Version) {
			if other.Action == Configure && !other.conflict && other.Expect != nil && other.Settings != a.Settings {
				wrong("so did others, with other settings")
			}
		}
		return
	}
	if a.Version <= e {
		return
	}
	writes, set := b.writes[t], uint64(0)
	for i := b.next(t, e); i < len(writes) && writes[i].to < a.Version; i++ {
		switch w := writes[i]; {
		case w.how >= byMove:
			set = 0 // what is expected is nothing since then
		case set == 0 && w.from >= e && b.changes(t, w):
			set = w.to
		}
	}
	if set > 0 {
		wrong("another value was set up to version %d", set)
		return
	}
	if t.what != SetData {
		return
	}
	was := b.at(t, a.Version-1)
	if !was.known || was.hash == hash {
		return
	}
	for i := b.next(t, a.Version-1); i < len(writes) && writes[i].to == a.Version; i++ {
		switch w := writes[i]; {
		case w.from != a.Version-1:
			return
		case w.how >= byList:
		case w.how == byAnswer && w.hash != hash && w.hash != was.hash:
			if p.expected(w, a) {
				wrong("so did %q, at the same version", w.by)
				return
			}
		case w.how == byEvent && (w.by != a.By || w.hash != hash):
			wrong("%q set another value just before", w.by)
			return
		case w.how == byEvent:
			return
		}
	}
}

// expected reports whether the write was a compare-and-set that replaced another value, as a.
func (p *replay) expected(w write, a answered) bool {
	for _, other := range p.log.requests {
		if other.Action == a.Action && other.Version == a.Version && other.By == w.by && other.Expect != nil && !other.conflict {
			return hashData(other.Data) == w.hash
		}
	}
	return false
}

// checkConflict looks for the reason why a compare-and-set was refused, and compares what
// it was told to be there.
func (p *replay) checkConflict(a answered, t register) {
	b := p.registers
	if a.Expect == nil {
		p.found(Conflict, a.Version, a.By, "%s of %q was refused as a conflict, and expected nothing", a.Action, a.By)
		return
	}
	e := *a.Expect
	if t.what != Configure {
		if all := b.possible(t, a.Version); all != nil && !slices.Contains(all, hashData(a.there)) {
			p.found(Diverged, a.Version, a.By, "%s of %q was refused, with other data than the history makes", a.Action, a.By)
		}
	}
	switch {
	case a.ExpectEpoch != "" && a.ExpectEpoch != a.Epoch || e > a.Version:
		return
	case t.what == Configure:
		if a.Version == e {
			p.found(Conflict, a.Version, a.By, "%s of %q expected version %d, and was refused at it", a.Action, a.By, e)
		}
		return
	}
	writes := b.writes[t]
	for i := b.next(t, e); i < len(writes) && writes[i].from < a.Version && e < a.Version; i++ {
		if w := writes[i]; w.how < byList && (t.user == "" || w.how == byAnswer || b.mayChange(t, w)) {
			return
		}
	}
	if b.unsure(t, e, a.Version) {
		return
	}
	p.found(Conflict, a.Version, a.By, "%s of %q expected version %d, and was refused at version %d, but nothing was set in between",
		a.Action, a.By, e, a.Version)
}
