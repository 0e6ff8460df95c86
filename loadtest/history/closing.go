package history

import (
	"maps"
	"slices"
)

// checkClosed checks that nobody is in the room after a version at which it was closed, and
// nobody who was banned there.
func (p *replay) checkClosed(acks []storedAck, done changes, v uint64) {
	for _, a := range acks {
		if a.kind < ackGone || a.version != v || !p.exact || p.list.tainted {
			continue
		}
		for _, user := range slices.Sorted(maps.Keys(p.list.roster.Of)) {
			came := slices.ContainsFunc(done, func(c storedChange) bool { return c.join && c.user.Value() == user })
			switch {
			case came:
			case a.kind == ackCloses:
				p.found(Lost, v, user, "the room was closed, and %s is in it", user)
			case user == a.user.Value():
				p.room.lost(p.log.name, v, Change{Type: Leave, User: user})
			}
		}
	}
}

// vacateClosed empties the room at a version that nobody saw, if it was closed there, and
// removes who was banned there.
func (p *replay) vacateClosed(acks []storedAck, v uint64) {
	for _, a := range acks {
		if user := a.user.Value(); a.kind == ackGone {
			p.list.busy[user] = true
			if _, there := p.list.roster.Of[user]; there {
				p.apply(Change{Type: Leave, User: user}, v, true, false)
			}
		}
	}
	if !slices.ContainsFunc(acks, func(a storedAck) bool { return a.kind == ackCloses }) {
		return
	}
	for user := range p.list.pool {
		p.list.busy[user] = true // whoever came in unseen left again
	}
	for _, user := range slices.Sorted(maps.Keys(p.list.roster.Of)) {
		came := slices.ContainsFunc(acks, func(a storedAck) bool { return a.kind == ackMoves && a.join && a.user.Value() == user })
		if !came {
			p.apply(Change{Type: Leave, User: user}, v, true, false)
		}
	}
}

// closers returns that every user may have left by requests to close the room with an
// unknown outcome.
func (e *epochLog) closers(all []unanswered, others []unknown) (leaves []unknown) {
	for _, u := range all {
		if u.Action != Close {
			continue
		}
		users := make(map[string]bool)
		for _, other := range others {
			users[other.user] = true
		}
		for _, m := range e.users {
			users[m.User] = true
		}
		for _, a := range e.acks {
			users[a.user.Value()] = true
		}
		for _, c := range e.commits() {
			for _, one := range c.changes {
				users[one.user.Value()] = true
			}
		}
		for user := range users {
			leaves = append(leaves, unknown{user, Leave, u.after})
		}
	}
	return leaves
}

// seen is what one event showed, of one version or several.
type seen struct {
	span
	changes
}

// has reports whether the event shows the version.
func (s span) has(v uint64) bool { return s.from < v && v <= s.to }

// commits returns the commits that were seen, in order, and then the events over several
// versions, in order.
func (e *epochLog) commits() (all []seen) {
	for _, number := range slices.Sorted(maps.Keys(e.pages)) {
		for i := range e.pages[number].versions {
			if v := number*pageSize + uint64(i); e.pages[number].versions[i].has&hasCommit != 0 {
				all = append(all, seen{span{v - 1, v}, e.stored(v)})
			}
		}
	}
	for s, c := range e.spans {
		all = append(all, seen{s, c})
	}
	return all
}
