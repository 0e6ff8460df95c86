package feed

import (
	"slices"
	"sync"

	"roomd/lockmgr/redisconn/pubsub"
	"roomd/room"
)

// A buffer holds at most maxHeld events, which were maxHeldBytes together when received.
const (
	maxHeld      = 1024
	maxHeldBytes = 4 << 20
)

// feed has one room's events in order and without gaps, for all watchers on this node.
type feed struct {
	id  string
	sub *pubsub.Subscription

	mu      sync.Mutex
	watches map[*watch]struct{} // guarded by mu
	known   bool                // guarded by mu: the watchers know the room, at position at
	at      room.Position       // guarded by mu
	syncing bool                // guarded by mu: a snapshot is needed; events are buffered
	forked  bool                // guarded by mu: Redis has lost commits that the watchers know, in the epoch of at
	whole   bool                // guarded by mu: subscribed; only an interruption can lose events
	memory  room.Memory         // guarded by mu: of the room as known here, if whole
	unseen  buffer              // guarded by mu: events from before the room was seen
	held    buffer              // guarded by mu: events while syncing; dropped ones cause another snapshot
}

// buffer holds events back. The zero value is empty.
type buffer struct {
	events []*room.Event
	sizes  []int
	bytes  int // sum of sizes
	early  int // number of events from before the request for the snapshot
}

// add appends an event of size bytes. If the buffer is full it first drops all others, and returns true.
func (b *buffer) add(e *room.Event, size int) (dropped bool) {
	if dropped = len(b.events) == maxHeld || b.bytes+size > maxHeldBytes; dropped {
		*b = buffer{}
	}
	b.events, b.sizes, b.bytes = append(b.events, e), append(b.sizes, size), b.bytes+size
	return dropped
}

// watch is one watcher of a room.
type watch struct {
	fn    func(*room.Event)
	aside bool // it does not keep the feed open
}

func newFeed(id string) *feed {
	return &feed{id: id, watches: make(map[*watch]struct{})}
}

// receive handles an event of size bytes from Redis. It returns true if a snapshot must be read, because earlier events
// are missing or Redis has lost commits.
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
		switch at := e.Position(); {
		case f.at.Is(at), at.Precedes(f.at):
			return false // known to the watchers
		// This commit, or the one before it, has the number of a commit that Redis has lost.
		case f.at.Lost(at), e.Forks(f.at):
			f.syncing, f.forked = true, true
			f.held.add(e, size)
			return true
		case f.at.Epoch != at.Epoch, e.From != f.at.Version:
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

// knows reports whether the watchers know the commit at this position.
func (f *feed) knows(at room.Position) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.syncing && f.known && (f.at.Is(at) || at.Precedes(f.at))
}

// committed publishes a commit of this node if it is the next one.
func (f *feed) committed(c *room.Commit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.syncing || !f.known || c.Epoch != f.at.Epoch || c.Version != f.at.Version+1 {
		return
	}
	c.Updates = slices.Clone(c.Updates) // the room reuses its slice
	f.receiveLocked(c.Event(f.id), 0)   // never buffered, since it is the next one
}

// interrupt records that events may be lost. It returns true if a snapshot must be read: there are watchers, and no
// snapshot is under way.
func (f *feed) interrupt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.watches) == 0 || f.syncing {
		return false
	}
	f.syncing = true
	return true
}

func (f *feed) rejoin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publishLocked(&room.Event{Room: f.id, Epoch: f.at.Epoch, Version: f.at.Version, From: f.at.Version, Rejoin: true})
}

// hasLost reports whether the room as read lacks commits that are known here.
func (f *feed) hasLost(now *room.Room) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.memory.Outlives(now) || f.known && (f.at.Lost(now.Position) || f.forked && f.at.Epoch == now.Epoch)
}

// beginsAnewLocked reports whether epoch differs from the last epoch of the room that is known here. Watchers may know
// the last epoch even before the first event.
func (f *feed) beginsAnewLocked(epoch string) bool {
	was := f.memory.Epoch()
	return was != "" && was != epoch
}

// saw records a room that was just read or written. It returns true if a snapshot must be read and none is under way.
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

// subscribed records that all events arrive from now on.
func (f *feed) subscribed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = true
}

// recall restores in now the parts of the room that Redis has lost and the feed remembers.
func (f *feed) recall(now *room.Room) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now.Recall(&f.memory)
}

// position returns the position that the watchers know, zero if they know none; and whether they need a snapshot.
func (f *feed) position() (at room.Position, syncing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		return room.Position{}, f.syncing
	}
	return f.at, f.syncing
}

func (f *feed) asks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held.early = len(f.held.events)
}

// resume publishes the room as read, then the buffered events. The snapshot also gets these events, because they show
// replaced sessions. alive are the node's names whose members have not been removed. gap: the events leave another
// gap. stale: resume dropped events from before the request, whose epoch is over.
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

// remove removes a watch. It returns true if no other watch keeps the feed open, and false if w was gone already.
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
