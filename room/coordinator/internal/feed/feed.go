package feed

import (
	"slices"
	"sync"

	"roomd/lockmgr/redisconn/pubsub"
	"roomd/room"
)

// A buffer has at most maxHeld events, of maxHeldBytes as they came from Redis.
const (
	maxHeld      = 1024
	maxHeldBytes = 4 << 20
)

// feed is one room's events on this node, in order and without gaps, for all who watch the room here.
type feed struct {
	id  string
	sub *pubsub.Subscription

	mu      sync.Mutex
	watches map[*watch]struct{} // guarded by mu
	known   bool                // guarded by mu: at says what the watchers know
	at      room.Position       // guarded by mu
	syncing bool                // guarded by mu: a snapshot is wanted, events are held back
	forked  bool                // guarded by mu: Redis has lost commits that the watchers know, in the epoch of at
	whole   bool                // guarded by mu: no event is missed any more, but by an interruption
	memory  room.Memory         // guarded by mu: of the room as far as it is known here, if whole
	unseen  buffer              // guarded by mu: events that came before the room was seen
	held    buffer              // guarded by mu: if it drops some, the gap after the snapshot leads to another one
}

// buffer has events that are held back. The zero value is empty.
type buffer struct {
	events []*room.Event
	sizes  []int
	bytes  int // the sum of sizes
	early  int // how many came before the snapshot was asked for
}

// add holds an event of so many bytes back. If there are too many it drops those before, and reports that.
func (b *buffer) add(e *room.Event, size int) (dropped bool) {
	if dropped = len(b.events) == maxHeld || b.bytes+size > maxHeldBytes; dropped {
		*b = buffer{}
	}
	b.events, b.sizes, b.bytes = append(b.events, e), append(b.sizes, size), b.bytes+size
	return dropped
}

// watch is somebody who watches a room.
type watch struct {
	fn    func(*room.Event)
	aside bool // it does not keep the feed open
}

func newFeed(id string) *feed {
	return &feed{id: id, watches: make(map[*watch]struct{})}
}

// receive takes an event of so many bytes from Redis and reports whether something is
// missing before it, so that a snapshot has to be read.
func (f *feed) receive(e *room.Event, size int) (gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.receiveLocked(e, size)
}

func (f *feed) receiveLocked(e *room.Event, size int) (gap bool) {
	if f.syncing {
		f.held.add(e, size)
		return false
	}
	if f.known {
		switch order := f.at.Compare(e.Position()); {
		case order == room.Same, order == room.Earlier:
			return false // the watchers know it
		case order == room.Forked, e.Forks(f.at): // a commit that Redis has lost had the number of this one, or of the one before
			f.syncing, f.forked = true, true
			f.held.add(e, size)
			return true
		case order == room.OtherEpoch, e.From != f.at.Version:
			f.syncing = true
			f.held.add(e, size)
			return true
		}
	}
	if !f.known && f.beginsAnewLocked(e.Epoch) {
		f.syncing = true
		f.held.add(e, size)
		return true
	}
	f.known, f.at = true, e.Position()
	if f.whole && !f.memory.Follow(e) {
		f.unseen.add(e, size)
	}
	f.publishLocked(e)
	return false
}

// knows reports whether the watchers know the commit that made a position.
func (f *feed) knows(at room.Position) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.syncing || !f.known {
		return false
	}
	order := f.at.Compare(at)
	return order == room.Same || order == room.Earlier
}

// committed publishes a commit of this node, if it is the next one.
func (f *feed) committed(c *room.Commit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.syncing || !f.known || c.Epoch != f.at.Epoch || c.Version != f.at.Version+1 {
		return
	}
	c.Updates = slices.Clone(c.Updates) // the room uses its own again
	f.receiveLocked(c.Event(f.id), 0)   // it is the next one, so it is not held
}

// interrupt records that events may have been missed, and reports whether a snapshot has
// to be read for it: somebody watches, and none is being read.
func (f *feed) interrupt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.watches) == 0 || f.syncing {
		return false
	}
	f.syncing = true
	return true
}

// rejoin publishes that the node has a new name.
func (f *feed) rejoin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publishLocked(room.RejoinEvent(f.id, f.at))
}

// hasLost reports whether the room as it was read lacks commits that are known here.
func (f *feed) hasLost(now *room.Room) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.memory.Outlives(now) || f.known && (f.at.Lost(now.Position) || f.forked && f.at.Epoch == now.Epoch)
}

// beginsAnewLocked reports whether an epoch is another one than that of the room as it was seen here: watchers may
// know that, also if no event has come yet.
func (f *feed) beginsAnewLocked(epoch string) bool {
	was := f.memory.Epoch()
	return was != "" && was != epoch
}

// saw records the room as it was read or written, and reports whether a snapshot has to be read for it. While one
// is, that says more.
func (f *feed) saw(now *room.Room) (gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.whole, f.syncing:
	case !f.known && f.beginsAnewLocked(now.Epoch):
		f.syncing, gap = true, true
	default:
		f.sawLocked(now)
	}
	return gap
}

func (f *feed) sawLocked(now *room.Room) {
	f.memory.See(now)
	for _, e := range f.unseen.events {
		f.memory.Follow(e)
	}
	f.unseen = buffer{}
}

// subscribed records that from now on all events come.
func (f *feed) subscribed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = true
}

// recall gives the room back what Redis has lost of it, as far as it is known here.
func (f *feed) recall(now *room.Room) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now.Recall(&f.memory)
}

// position returns what the watchers know, also while a snapshot is read. The zero Position is nothing.
func (f *feed) position() (at room.Position, syncing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		return room.Position{}, f.syncing
	}
	return f.at, f.syncing
}

// asks records that a snapshot is asked for now.
func (f *feed) asks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held.early = len(f.held.events)
}

// resume publishes a room as it was read, and then the events that came meanwhile. Earlier ones come with the
// snapshot: they show who was replaced. alive are the names of this node whose members nobody has removed. It reports
// whether the events leave another gap, and whether some were of an epoch that is over: they came before the snapshot
// was asked for, and that has another one. They are dropped, since no further snapshot would explain them.
func (f *feed) resume(r *room.Room, alive []string) (gap, stale bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.held
	f.syncing, f.forked, f.held = false, false, buffer{}
	f.known, f.at, f.whole = true, r.Position, true
	f.sawLocked(r)
	f.publishLocked(room.SnapshotEvent(r, alive, held.events))
	for i, e := range held.events {
		if i < held.early && e.Epoch != r.Epoch {
			stale = true
			continue
		}
		gap = f.receiveLocked(e, held.sizes[i]) || gap
	}
	return gap, stale
}

func (f *feed) publishLocked(e *room.Event) {
	for w := range f.watches {
		w.fn(e)
	}
}

func (f *feed) add(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[w] = struct{}{}
}

// remove takes a watch away, if it is there, and reports whether it was the last one that keeps the feed open.
func (f *feed) remove(w *watch) (empty bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, watching := f.watches[w]; !watching {
		return false
	}
	delete(f.watches, w)
	for other := range f.watches { // at most one is aside
		if !other.aside {
			return false
		}
	}
	return true
}
