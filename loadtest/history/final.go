package history

import (
	"maps"
	"slices"
)

// compareFinal compares the replayed list with the final one, once, when the
// replay is at the final version.
func (p *replay) compareFinal() {
	if p.version == p.final.Version && !p.done {
		p.done = true
		p.compareLists(!p.exact)
	}
}

// compareLists reports each user whose place differs in the final list. If
// unknown outcomes may have come unseen, it takes them for committed where they
// explain a difference.
func (p *replay) compareLists(lenient bool) {
	v := p.final.Version
	final, onSeat := newRoster(), make(map[int]int)
	for _, f := range final.set(p.final.Users, 0) {
		p.report(f, v)
	}
	for _, seat := range final.seats {
		onSeat[seat]++
	}
	var did []Change
	for _, user := range slices.Sorted(maps.Keys(p.roster.seats)) {
		was := p.roster.seats[user]
		seat, there := final.seats[user]
		mayLeave, mayJoin := lenient && p.pool.can(user, Leave, v), lenient && p.pool.can(user, Join, v)
		switch {
		case there && seat == was || p.settled[user]:
		case !there && mayLeave:
			did = append(did, Change{Leave, user, was})
		case !there:
			p.lost(p.last[user].version, Change{Join, user, was})
		case mayLeave && mayJoin:
			did = append(did, Change{Leave, user, was}, Change{Join, user, seat})
		case onSeat[seat] == 1: // else the clash is reported
			p.found(Diverged, v, user, "%s is on seat %d, by the history on seat %d", user, seat, was)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(final.seats)) {
		seat := final.seats[user]
		last, known := p.last[user]
		switch _, there := p.roster.seats[user]; {
		case there || p.settled[user]:
		case lenient && p.pool.can(user, Join, v):
			did = append(did, Change{Join, user, seat})
		case !known:
			p.found(Phantom, v, user, "%s is in the room (seat %d) and never joined it", user, seat)
		case !last.join:
			p.lost(last.version, Change{Leave, user, seat})
		case !p.split: // else the contradiction is reported
			p.found(Diverged, v, user, "%s is in the room (seat %d), which the history does not lead to", user, seat)
		}
	}
	p.adopt(did, v)
	if lenient {
		p.drift, p.unsure = fingerprint{}, false
	}
}
