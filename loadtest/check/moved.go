package check

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// movedData tracks the private data that moved users carry from one room to another.
type movedData struct {
	dealt   map[hand]bool  // data that somebody set, or tried to, in any room
	taken   map[int]string // by the operation that left the old room: the user's data there
	arrived []arrival
}

// hand is private data of a user.
type hand struct{ user, data string }

func newMovedData(h *History) *movedData {
	l := &movedData{dealt: make(map[hand]bool), taken: make(map[int]string)}
	for _, op := range h.Ops {
		switch op.Action {
		case SetPrivate:
			l.dealt[hand{op.Process, op.Value}] = true
		case Deal:
			for _, user := range op.Users {
				l.dealt[hand{user, op.Value}] = true
			}
		}
	}
	return l
}

// arrival is a moved user in the new room.
type arrival struct {
	op          *Op
	before, now string // its private data in the new room
}

// found returns the private data that the action of the commit e found: those before it, with what e restores first.
func (s *state) found(e *Entry) map[string]string {
	all := s.private()
	for _, c := range e.Changes {
		switch {
		case !c.Again:
		case c.Type == "leave":
			delete(all, c.User)
		case c.Type == "private":
			all[c.User] = c.Data
		}
	}
	return all
}

// pack records the private data of moved users when they leave, or arrive. The move found the data in before, and
// the commit e made s.
func (w *witness) pack(op *Op, e *Entry, before map[string]string, s *state) {
	switch op.Action {
	case MoveOut:
		for _, user := range op.Users {
			if e.has("leave", user) && before[user] != "" {
				w.moved.taken[op.ID] = before[user]
			}
		}
	case MoveIn:
		now := s.private()
		for _, user := range op.Users {
			a := arrival{op, before[user], now[user]}
			if w.another(e, user, a.now) {
				a.before = a.now
			}
			w.moved.arrived = append(w.moved.arrived, a)
		}
	}
}

// another reports whether another action than a move gave the user the private data in the commit e. A move that
// changes nothing in the new room is answered with the version that the room has.
func (w *witness) another(e *Entry, user, data string) bool {
	set := func(op *Op) bool { return op.Value != "" && op.Value == data }
	return slices.ContainsFunc(w.acked[e.point()], set) || !e.awaits(user) && slices.ContainsFunc(w.open, set)
}

// awaits reports whether the commit reserves the user's seat, or gives it to another session.
func (e *Entry) awaits(user string) bool {
	return slices.ContainsFunc(e.Changes, func(c Change) bool {
		return c.User == user && (c.Type == "join" && c.Away || c.Type == "replace")
	})
}

// judge reports users who lost their private data by a move. A user who already had some in the new room keeps those.
func (l *movedData) judge(v *Verdict) {
	found := complaints{"witness", "", make(map[string]int), &v.Violations}
	for _, a := range l.arrived {
		had, some := l.taken[a.op.Left]
		if !some || a.now == had || a.now != "" && a.now == a.before {
			continue
		}
		found.room = a.op.Room
		found.broken("private", a.op.Return, "%s: it left with the private data %s, and has %s", a.op, had,
			cmp.Or(a.now, "none"))
	}
}

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
				list = append(list, removal{roomEpoch{room, epoch}, first, c.User, m.when(room, Point{epoch, last}).to})
			}
		}
	}
	type place struct {
		conn int
		room string
	}
	knows := make(map[place]Point)
	for i := range h.Events {
		e := &h.Events[i]
		here := place{e.Conn, e.Room}
		if e.Lost == "node" { // after the last version that it knew
			list = append(list, removal{roomEpoch{e.Room, knows[here].Epoch}, knows[here].Version + 1, e.User, e.At})
		}
		find(e.Room, e.Epoch, e.From+1, e.Version, e.Changes)
		if e.Version > 0 {
			knows[here] = e.point()
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

// watched returns entries that replace the journal of a room that has none, or only a part: the events to
// watchers, from the first list on. They lack private data, whispers and bans. Where a watcher missed
// something, the next list continues.
func (h *History) watched(events []*Event) (journal []Entry) {
	var epochs []string
	told := make(map[string]map[uint64][]Entry) // by epoch and version
	for _, e := range events {
		if !h.Conns[e.Conn].Watches || e.Version == 0 {
			continue
		}
		if told[e.Epoch] == nil {
			epochs = append(epochs, e.Epoch)
			told[e.Epoch] = make(map[uint64][]Entry)
		}
		one := Entry{Epoch: e.Epoch, Version: e.Version, Changes: e.Changes, from: e.From, list: e.List,
			merged: e.List != nil || e.From+1 < e.Version}
		if e.List != nil {
			one.from = e.Version - 1
		}
		told[e.Epoch][e.Version] = append(told[e.Epoch][e.Version], one)
	}
	for _, epoch := range epochs {
		last := Entry{}
		for _, version := range slices.Sorted(maps.Keys(told[epoch])) {
			// Prefer an entry that continues the last one to a list, and one commit to several.
			next := slices.MinFunc(told[epoch][version], func(a, b Entry) int {
				rank := func(e Entry) int {
					switch {
					case e.list != nil:
						return 2
					case e.from != last.Version:
						return 3
					case e.merged:
						return 1
					}
					return 0
				}
				return cmp.Compare(rank(a), rank(b))
			})
			if next.list != nil || next.from == last.Version && (last.Version > 0 || next.from == 0) {
				journal, last = append(journal, next), next
			}
		}
	}
	return journal
}

// unwatched reports whether an operation was answered at a version that watchers did not get: before they came,
// or while they were away.
func (w *witness) unwatched(op *Op) bool {
	last := w.journal[len(w.journal)-1]
	return op.Epoch != last.Epoch || op.Version < last.Version
}
