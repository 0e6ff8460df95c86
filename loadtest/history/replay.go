package history

import (
	"cmp"
	"maps"
	"slices"
)

// replay runs through a room's history by version. At each step it knows the
// list exactly, or that something is missing from its knowledge.
type replay struct {
	l     *Ledger
	room  string
	e     *epochLog
	final RoomState

	versions []uint64        // of e.interesting, and the final one
	acks     []storedAck     // by version; those replayed are cut off
	spans    []span          // in order
	next     map[uint64]span // the shortest of them from a version
	pool     pool
	budget   int // of tries that are left

	version uint64
	roster  roster
	last    map[string]action // what each user was seen to do last
	changed int               // how many changes were replayed
	reached map[uint64]int    // by version, how many they were then
	busy    map[string]bool   // users who did or may have done something unseen in this step
	drift   fingerprint       // what the observed list has more than roster
	exact   bool              // roster is the list for certain at version
	unsure  bool              // drift may be the work of unknown outcomes
	tainted bool              // a fault was reported that may show in the next print
	split   bool              // sources contradict each other somewhere in this room
	settled map[string]bool   // users of whom a wrong seat or place is reported
	done    bool              // final was compared
}

// action is what a user did last, and when.
type action struct {
	join    bool
	version uint64
}

func newReplay(l *Ledger, r *roomLog, e *epochLog, final RoomState) *replay {
	p := &replay{
		l: l, room: r.name, e: e, final: final,
		acks: slices.Clone(e.acks), next: make(map[uint64]span), pool: newPool(r.unknown), budget: l.budget,
		version: e.start, roster: newRoster(), last: make(map[string]action), exact: true, settled: make(map[string]bool), busy: make(map[string]bool),
		reached: make(map[uint64]int),
	}
	slices.SortStableFunc(p.acks, func(a, b storedAck) int { return cmp.Compare(a.version, b.version) })
	p.spans = slices.SortedFunc(maps.Keys(e.spans), func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	for _, s := range p.spans {
		if _, known := p.next[s.from]; !known {
			p.next[s.from] = s
		}
	}
	for _, f := range p.roster.set(e.users, l.capacity) {
		p.report(f, e.start)
	}
	for user := range p.roster.seats {
		p.last[user] = action{true, e.start}
	}
	p.versions = e.interesting()
	if at, known := slices.BinarySearch(p.versions, final.Version); !known && final.Version > e.start {
		p.versions = slices.Insert(p.versions, at, final.Version)
	}
	return p
}

// run replays all that is known of the room and compares the outcome.
func (p *replay) run() {
	highest := p.version
	for _, v := range p.versions {
		if p.e.look(v).has != 0 {
			highest = max(highest, v)
		}
	}
	if n := len(p.acks); n > 0 {
		highest = max(highest, p.acks[n-1].version)
	}
	for _, s := range p.spans {
		highest = max(highest, s.to)
	}
	if p.final.Version < highest {
		p.found(Lost, highest, "", "the room stands at version %d at the end", p.final.Version)
	}
	before := p.takeAcks(p.version)
	p.checkAcks(before, nil, false, false)
	p.reconcile(p.version, stretch{})
	p.compareFinal()
	for i := 0; i < len(p.versions); {
		if p.versions[i] <= p.version {
			i++
			continue
		}
		p.reached[p.version] = p.changed
		if p.e.look(p.version+1).has&hasCommit != 0 {
			p.stepCommit()
		} else if s, known := p.next[p.version]; known {
			p.stepSpan(s, p.e.spans[s])
		} else if s, rest, found := p.overlapping(); found {
			p.stepSpan(s, rest)
		} else {
			p.stepUnseen(p.versions[i:])
		}
		p.compareFinal()
	}
}

// stepCommit replays a version of which an event was seen: nothing else can have
// happened in it.
func (p *replay) stepCommit() {
	v := p.version + 1
	contested := p.e.look(v).has&disputed != 0
	lenient := !p.exact
	done := p.e.stored(v)
	acks := p.takeAcks(v)
	for _, c := range done {
		p.apply(c.change(), v, lenient, contested)
	}
	p.credit(done, acks, v)
	if contested {
		p.split = true
		p.believe(acks)
	} else {
		p.checkAcks(acks, done, false, lenient)
	}
	p.version = v
	p.reconcile(v, stretch{lenient: lenient})
}
