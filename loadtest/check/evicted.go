package check

import (
	"slices"
	"time"
)

// removal says that a user was removed because the node seemed to be dead: in that version or a later one, and
// before somebody was told.
type removal struct {
	in      roomEpoch
	version uint64
	user    string
	told    time.Duration
}

// removals returns all removals in events and journals, some of them twice.
func (h *History) removals(m *commitTimes) (list []removal) {
	find := func(room, epoch string, first, last uint64, changes []Change) {
		for _, c := range changes {
			if c.Type == "leave" && c.Reason == "node" {
				list = append(list, removal{roomEpoch{room, epoch}, first, c.User, m.when(room, at{epoch, last}).to})
			}
		}
	}
	type place struct {
		conn int
		room string
	}
	knows := make(map[place]at)
	for i := range h.Events {
		e := &h.Events[i]
		here := place{e.Conn, e.Room}
		if e.Lost == "node" { // after the last version that it knew
			list = append(list, removal{roomEpoch{e.Room, knows[here].epoch}, knows[here].version + 1, e.User, e.At})
		}
		find(e.Room, e.Epoch, e.From+1, e.Version, e.Changes)
		if e.Version > 0 {
			knows[here] = at{e.Epoch, e.Version}
		}
	}
	for room, journal := range h.Journals {
		for i := range journal {
			e := &journal[i]
			find(room, e.Epoch, e.Version, e.Version, e.Changes)
		}
	}
	return list
}

// evicted returns members removed as a dead node's although their connection was still receiving, and no fault
// since their last action explains it. Linearize must know them: a node without processor time also loses its
// lease, and its users come back by themselves.
func (h *History) evicted() map[roomEpoch][]string {
	all, of := make(map[roomEpoch][]string), h.answered()
	for _, r := range h.removals(newCommitTimes(h)) {
		if !slices.Contains(all[r.in], r.user) && h.unexplained(r, of[r.user]) {
			all[r.in] = append(all[r.in], r.user)
		}
	}
	return all
}

// unexplained reports whether the user's connection still received after the removal, and no fault explains
// that. ops are the user's operations; the connection is that of an action in the room.
func (h *History) unexplained(r removal, ops []*Op) bool {
	return slices.ContainsFunc(h.Conns, func(c Conn) bool {
		return c.User == r.user && (c.Open || c.Last > r.told) && slices.ContainsFunc(ops, func(op *Op) bool {
			return op.Call >= c.From && op.Outcome == Done && op.Action != Read && op.Room == r.in.room &&
				op.Epoch == r.in.epoch && op.Version < r.version &&
				!slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.evicts(op.Call, r.told) })
		})
	})
}
