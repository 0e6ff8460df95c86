package check

import (
	"slices"
	"time"
)

// removal is that a user was removed because the node seemed to be dead: in that version or a later one, and before
// somebody was told.
type removal struct {
	in      roomEpoch
	version uint64
	user    string
	told    time.Duration
}

// removals returns all of which somebody was told, or that are in the journals. They may be there twice.
func (h *History) removals(m *moments) (list []removal) {
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
		if e.Lost == "node" { // behind what it knew
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

// evicted returns who was removed because the node seemed to be dead, while it was heard on the connection by which
// they were there, and no fault had that effect since they had acted for the last time, so that they are known to the
// model. Nodes that get no processor time lose their leases, too, and their users come back by themselves.
func (h *History) evicted() map[roomEpoch][]string {
	all, of := make(map[roomEpoch][]string), h.answered()
	for _, r := range h.removals(newMoments(h)) {
		if !slices.Contains(all[r.in], r.user) && h.unexplained(r, of[r.user]) {
			all[r.in] = append(all[r.in], r.user)
		}
	}
	return all
}

// unexplained reports whether a connection by which the user, whose operations these are, had acted in the room
// before the removal was heard still behind it, and no fault explains that.
func (h *History) unexplained(r removal, ops []*Op) bool {
	return slices.ContainsFunc(h.Conns, func(c Conn) bool {
		return c.User == r.user && (c.Open || c.Last > r.told) && slices.ContainsFunc(ops, func(op *Op) bool {
			return op.Call >= c.From && op.Outcome == Done && op.Action != Read && op.Room == r.in.room &&
				op.Epoch == r.in.epoch && op.Version < r.version &&
				!slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.evicts(op.Call, r.told) })
		})
	})
}
