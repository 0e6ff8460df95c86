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
	if p.version == p.final.Version && !p.stored {
		p.stored = true
		p.compareContent(p.version, contentOf(p.final), "the store", len(p.reported) > 0)
		if s := p.final.Settings; s != nil {
			for _, f := range overCapacity(len(p.final.Users), s.Capacity) {
				p.room.fault(p.log.name, p.version, f)
			}
		}
	}
}

// compareLists reports each user whose place differs in the final list. A lenient
// comparison assumes that unknown requests were committed where that explains a
// difference.
func (p *replay) compareLists(lenient bool) {
	v, list := p.final.Version, &p.list
	final, onSeat := newRoster(), make(map[int]int)
	for _, f := range final.set(p.final.Users, 0) {
		p.room.fault(p.log.name, v, f)
	}
	for _, seat := range final.Of {
		onSeat[seat]++
	}
	var committed []Change
	for _, user := range slices.Sorted(maps.Keys(list.roster.Of)) {
		was := list.roster.Of[user]
		seat, there := final.Of[user]
		mayLeave, mayJoin := lenient && list.pool.has(user, Leave, v), lenient && list.pool.has(user, Join, v)
		switch {
		case there && seat == was || p.reported[user]:
		case !there && mayLeave:
			committed = append(committed, Change{Type: Leave, User: user, Seat: was})
		case !there:
			p.room.lost(p.log.name, list.last[user].version, Change{Type: Join, User: user, Seat: was})
		case mayLeave && mayJoin:
			committed = append(committed, Change{Type: Leave, User: user, Seat: was}, Change{Type: Join, User: user, Seat: seat})
		case onSeat[seat] == 1 && !p.mayReseat(v): // else the clash is reported
			p.found(Diverged, v, user, "%s is on seat %d, by the history on seat %d", user, seat, was)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(final.Of)) {
		seat := final.Of[user]
		last, seen := list.last[user]
		switch _, there := list.roster.Of[user]; {
		case there || p.reported[user]:
		case lenient && list.pool.has(user, Join, v):
			committed = append(committed, Change{Type: Join, User: user, Seat: seat})
		case !seen:
			p.found(Phantom, v, user, "%s is in the room (seat %d) and never joined it", user, seat)
		case !last.join:
			p.room.lost(p.log.name, last.version, Change{Type: Leave, User: user, Seat: seat})
		case !p.split: // which is reported
			p.found(Diverged, v, user, "%s is in the room (seat %d), but the history does not lead there", user, seat)
		}
	}
	list.adopt(committed, v)
	if lenient {
		list.drift, list.unsure = fingerprint{}, false
	}
}
