package history

import (
	"cmp"
	"slices"
)

// register is something that has one value at a version.
type register struct {
	what string // one of the actions that set it
	user string // whose, of SetReady and SetMember
}

// registers have for each register who gave it which value at which version.
type registers struct {
	epoch      string
	start      uint64
	writes     map[register][]write
	pending    []answered          // by version: acknowledged requests above the replay's version
	after      map[register]uint64 // requests with an unknown outcome may have been committed above that version
	unobserved []span              // versions that nobody saw
	data       value               // of the room, at the replay's version
	rules      value               // the settings
	host       value
	doubt      map[string]bool // members whose state is not known
	spoilt     bool            // a wrong state was reported, which would show again
}

// value is the hash of a value. It is not known where it may be the work of unknown requests.
type value struct {
	hash  uint64
	known bool
}

// write is a change of a register's value, committed within the span.
type write struct {
	span
	hash uint64
	by   string
	how  evidenceOf
}

// evidenceOf says how a write is known.
type evidenceOf uint8

const (
	byEvent  evidenceOf = iota
	byAnswer            // only
	byList              // that value was there, whoever set it
	byMove              // the member came or left, which ends its state and sets nothing
	byJoin              // so it may have been; nobody saw it
)

func newRegisters(r *roomLog, e *epochLog) *registers {
	b := &registers{
		epoch: e.name, start: e.start, writes: make(map[register][]write), after: make(map[register]uint64), doubt: make(map[string]bool),
		data: value{hashData(e.data), true}, host: value{hashHost(e.host), true}, rules: value{hashRules(e.rules), e.rules != nil},
	}
	for _, a := range e.requests {
		if a.conflict {
			continue
		}
		b.pending = append(b.pending, a)
		if a.Action == Close { // which has other settings behind it
			b.lower(register{what: Configure}, a.Version-1)
		}
	}
	slices.SortStableFunc(b.pending, func(x, y answered) int { return cmp.Compare(x.Version, y.Version) })
	for _, u := range r.unanswered {
		switch t, _, ok := u.sets(); {
		case ok:
			b.lower(t, u.after)
		case u.Action == Close:
			b.lower(register{what: Configure}, u.after)
		}
	}
	for _, u := range slices.Concat(r.unknowns, e.closers(r.unanswered, r.unknowns)) {
		if u.action == Join || u.action == Leave { // which begin the user's state anew
			b.lower(register{SetReady, u.user}, u.after)
			b.lower(register{SetMember, u.user}, u.after)
		}
	}
	if e.data != "" {
		b.writes[register{what: SetData}] = []write{{span: span{0, e.start}, hash: b.data.hash}}
	}
	if e.rules != nil {
		b.writes[register{what: Configure}] = []write{{span: span{0, e.start}, hash: b.rules.hash}}
	}
	return b
}

// lower notes that the register may have been set unseen above that version.
func (b *registers) lower(t register, version uint64) {
	if was, ok := b.after[t]; !ok || version < was {
		b.after[t] = version
	}
}

// sets returns which value the request sets, and the hash of the new one.
func (q *Request) sets() (t register, hash uint64, ok bool) {
	switch q.Action {
	case SetData:
		return register{what: SetData}, hashData(q.Data), true
	case Configure:
		return register{what: Configure}, hashRules(&q.Settings), true
	case SetMember:
		return register{SetMember, q.By}, hashData(q.Data), true
	case SetReady:
		return register{SetReady, q.By}, hashReady(q.Ready), true
	}
	return register{}, 0, false
}

func hashReady(ready bool) uint64 {
	if ready {
		return 1
	}
	return 0
}

func (b *registers) write(t register, w write) { b.writes[t] = append(b.writes[t], w) }

// commit enters what an event showed.
func (b *registers) commit(s span, all changes, list *estimate) {
	for _, c := range all {
		user, said := c.user.Value(), c.detail()
		switch c.kind {
		case roomData:
			b.data = value{hashData(said.Data), true}
			b.write(register{what: SetData}, write{span: s, hash: b.data.hash, by: user})
		case settings:
			b.rules = value{hashRules(&said.Settings), true}
			b.write(register{what: Configure}, write{span: s, hash: b.rules.hash, by: user})
		case hosts:
			b.host = value{hashHost(user), true}
		case memberState, moves: // who joins or leaves has no state
			how := byEvent
			if c.kind == moves {
				how, said = byMove, Detail{}
			}
			if said.Part != SetMember {
				b.write(register{SetReady, user}, write{span: s, hash: hashReady(said.Ready), by: user, how: how})
			}
			if said.Part != SetReady {
				b.write(register{SetMember, user}, write{span: s, hash: hashData(said.Data), by: user, how: how})
			}
			if _, there := list.roster.Of[user]; there || c.kind == moves {
				delete(b.doubt, user)
			} else {
				b.doubt[user] = true // the user came unseen
			}
		}
	}
}

// unseen enters what was acknowledged at a version that nobody saw.
func (b *registers) unseen(v uint64, list *estimate) {
	for len(b.pending) > 0 && b.pending[0].Version <= v {
		a := b.pending[0]
		b.pending = b.pending[1:]
		t, hash, ok := a.sets()
		if !ok || a.Version < v {
			continue // an event showed it
		}
		others := b.writes[t]
		again := len(others) > 0 && others[len(others)-1].to == v && others[len(others)-1].hash != hash
		b.write(t, write{span{v - 1, v}, hash, a.By, byAnswer})
		switch a.Action {
		case SetData:
			b.data = value{hash, !again} // nobody knows which came last
		case Configure:
			b.rules = value{hash, !again}
		default:
			if _, there := list.roster.Of[a.By]; there {
				said := list.roster.states[a.By]
				if a.Action == SetReady {
					said.ready = a.Ready
				} else {
					said.data = a.Data
				}
				list.roster.become(a.By, said)
			} else {
				b.doubt[a.By] = true // who came unseen
			}
		}
	}
}

// arrivals enters joins and leaves that were acknowledged at a version that nobody saw. Where the
// room was closed, all have left.
func (b *registers) arrivals(acks []storedAck, v uint64) {
	moved := func(user string) {
		for _, what := range []string{SetReady, SetMember} {
			b.write(register{what, user}, write{span: span{v - 1, v}, how: byJoin})
		}
	}
	for _, a := range acks {
		switch a.kind {
		case ackMoves, ackGone:
			moved(a.user.Value())
		case ackCloses:
			for t := range b.writes {
				if t.what == SetReady {
					moved(t.user)
				}
			}
		}
	}
}

// markUnobserved notes that nobody saw these versions, so that unknown requests may have been
// committed in them.
func (b *registers) markUnobserved(s span) {
	b.unobserved, b.host.known = append(b.unobserved, s), false
	for t, after := range b.after {
		if after >= s.to {
			continue
		}
		switch t.what {
		case SetData:
			b.data.known = false
		case Configure:
			b.rules.known = false
		default:
			b.doubt[t.user] = true
		}
	}
}

// next returns the index of the first write of the register that may be above v. The replay
// goes forward, so they are in order.
func (b *registers) next(t register, v uint64) int {
	i, _ := slices.BinarySearchFunc(b.writes[t], v+1, func(w write, v uint64) int { return cmp.Compare(w.to, v) })
	return i
}

// possible returns the values that a register may have after version v, or nil if it may have any.
func (b *registers) possible(t register, v uint64) (hashes []uint64) {
	last, writes, n := write{span: span{0, b.start}, hash: b.first(t)}, b.writes[t], b.next(t, v)
	if n > 0 {
		last = writes[n-1]
	}
	if b.unsure(t, last.to, v) || t.what == Configure && last.hash == 0 {
		return nil
	}
	first := max(n-1, 0)
	for first > 0 && last.how == byAnswer && writes[first-1].span == last.span {
		first-- // nobody knows which came last
	}
	if n == 0 {
		hashes = append(hashes, last.hash)
	}
	for i := first; i < len(writes) && (i < n || writes[i].from < v); i++ { // the last ones cover versions above v, too
		if writes[i].how == byJoin {
			return nil
		}
		hashes = append(hashes, writes[i].hash)
	}
	return hashes
}

// at returns the value of a register after version v, if only one is possible.
func (b *registers) at(t register, v uint64) value {
	all := b.possible(t, v)
	if all == nil || slices.ContainsFunc(all, func(hash uint64) bool { return hash != all[0] }) {
		return value{}
	}
	return value{all[0], true}
}

// changes reports whether the write has certainly changed its register's value. One that is known
// from an answer only may have found it there, and the event of a member's state may be about
// the rest of it.
func (b *registers) changes(t register, w write) bool {
	if w.how == byAnswer || w.how == byEvent && t.user != "" {
		was := b.at(t, w.from)
		return was.known && was.hash != w.hash
	}
	return w.how == byEvent
}

// mayChange reports whether the write is not known to leave the register's value as it was.
func (b *registers) mayChange(t register, w write) bool {
	was := b.at(t, w.from)
	return !was.known || was.hash != w.hash
}

// first returns the value at the start. That of settings may be unknown, which is 0.
func (b *registers) first(t register) uint64 {
	if t.what == SetReady || t.what == Configure {
		return 0
	}
	return hashData("")
}

// unsure reports whether an unknown request may have set the register after from, up to to.
func (b *registers) unsure(t register, from, to uint64) bool {
	after, ok := b.after[t]
	return ok && slices.ContainsFunc(b.unobserved, func(d span) bool { return d.from < to && d.to > max(from, after) })
}

// compareContent compares what who saw at v beside the seats with what the history makes.
func (p *replay) compareContent(v uint64, seen content, who string, quiet bool) {
	b, now := p.registers, content{timers: seen.timers, states: p.list.roster.state, absent: seen.absent}
	if !b.data.known {
		b.data = value{seen.data, true}
		b.write(register{what: SetData}, write{span: span{v - 1, v}, hash: seen.data, how: byList})
	}
	if !b.rules.known && seen.rules != 0 {
		b.rules = value{seen.rules, true}
		b.write(register{what: Configure}, write{span: span{v - 1, v}, hash: seen.rules, how: byList})
	}
	if !b.host.known {
		b.host = value{seen.host, seen.host != 0}
	}
	now.host = b.host.hash
	if now.data = b.data.hash; b.rules.known {
		now.rules = b.rules.hash
	}
	if b.spoilt || quiet || !p.exact || len(b.doubt) > 0 {
		now.states = seen.states
	}
	if what := seen.differs(now); what != "" {
		p.found(Diverged, v, "content", "%s sees other %s than the history makes", who, what)
		b.data, b.rules, b.host = value{seen.data, true}, value{seen.rules, seen.rules != 0}, value{seen.host, seen.host != 0}
		b.spoilt = b.spoilt || seen.states != now.states
	}
}
