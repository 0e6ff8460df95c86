package room

import (
	"math"
	"slices"
	"sync"

	"roomd/lockmgr/redisconn/pubsub"
)

// maxHeld is how many events a feed holds back while it reads a snapshot. With
// more it drops them and reads another one.
const maxHeld = 1024

// feed is one room's events on this node, in order and without gaps, for all who
// watch the room here.
type feed struct {
	id  string
	sub *pubsub.Subscription

	mu      sync.Mutex
	watches map[*watch]struct{} // guarded by mu
	known   bool                // guarded by mu: epoch and version say where the feed stands
	epoch   string              // guarded by mu
	version uint64              // guarded by mu
	mark    string              // guarded by mu: of that version's commit
	syncing bool                // guarded by mu: a snapshot is wanted, events are held back
	held    []*Event            // guarded by mu
}

type watch struct{ fn func(*Event) }

func newFeed(id string) *feed {
	return &feed{id: id, watches: make(map[*watch]struct{})}
}

// receive takes an event from Redis and reports whether something is missing
// before it, so that a snapshot has to be read.
func (f *feed) receive(e *Event) (gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.receiveLocked(e)
}

func (f *feed) receiveLocked(e *Event) (gap bool) {
	switch {
	case f.syncing:
		if len(f.held) == maxHeld {
			f.held = nil // the snapshot, or the gap after it, makes up for them
		}
		f.held = append(f.held, e)
		return false
	case f.known && e.Epoch == f.epoch && e.Version == f.version && f.otherLocked(e.wire.Mark):
		f.syncing = true // a commit that Redis has lost had its number
		return true
	case f.known && e.Epoch == f.epoch && e.Version <= f.version:
		return false // told already
	case f.known && (e.Epoch != f.epoch || e.From != f.version):
		f.syncing = true
		f.held = append(f.held, e)
		return true
	}
	f.known, f.epoch, f.version, f.mark = true, e.Epoch, e.Version, e.wire.Mark
	f.tellLocked(e)
	return false
}

// knows reports whether an event would be told twice.
func (f *feed) knows(epoch string, version uint64, mark string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.syncing && f.known && epoch == f.epoch && (version < f.version || version == f.version && !f.otherLocked(mark))
}

// otherLocked reports whether a commit of the version that was told is another one.
func (f *feed) otherLocked(mark string) bool { return f.mark != "" && mark != "" && mark != f.mark }

// committed takes what this node has committed, if it is the next event.
func (f *feed) committed(w *wireEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.syncing || !f.known || w.Epoch != f.epoch || w.Version != f.version+1 {
		return
	}
	w.Changes = slices.Clone(w.Changes) // the room uses its own again
	f.receiveLocked(w.toldIn(f.id))
}

// interrupt says that events may have been missed from here on, and reports
// whether anybody has to be brought up to date.
func (f *feed) interrupt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.watches) == 0 || f.syncing {
		return false
	}
	f.syncing = true
	return true
}

// renewed tells that the node has a new name.
func (f *feed) renewed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tellLocked(&Event{Room: f.id, Epoch: f.epoch, Version: f.version, From: f.version, Rejoin: true})
}

// behind reports whether a room is an earlier one than what was told of it, or not
// whole, so that a new epoch has to begin.
func (f *feed) behind(r *Room) (epoch string, version uint64, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known && r.Epoch == f.epoch && r.Version == f.version && f.otherLocked(r.mark) {
		return f.epoch, math.MaxInt64, true // whatever version it has by then
	}
	return f.epoch, f.version, f.known && r.Epoch == f.epoch && r.Version < f.version || r.renewed
}

// forgot reports whether a room is an earlier one than what was told of it, or has begun
// anew since: commits were lost.
func (f *feed) forgot(r *Room) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known && f.version > 0 &&
		(r.Epoch != f.epoch || r.Version < f.version || r.Version == f.version && f.otherLocked(r.mark))
}

// resume tells a room as it was read, and then the events that came meanwhile. Those
// for which the snapshot stands come with it: they show who was replaced. alive are the
// names of this node whose members nobody has removed. It reports whether the events
// leave yet another gap.
func (f *feed) resume(r *Room, alive []string) (gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held, s := f.held, r.Snapshot()
	f.syncing, f.held = false, nil
	f.known, f.epoch, f.version, f.mark = true, s.Epoch, s.Version, r.mark
	f.tellLocked(&Event{
		Room: f.id, Epoch: s.Epoch, Version: s.Version, Snapshot: &s,
		members: r.members, alive: alive, missed: held,
	})
	for _, e := range held {
		gap = f.receiveLocked(e) || gap
	}
	return gap
}

func (f *feed) tellLocked(e *Event) {
	for w := range f.watches {
		w.fn(e)
	}
}

func (f *feed) add(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[w] = struct{}{}
}

// remove takes a watch away and reports whether it was the last one.
func (f *feed) remove(w *watch) (empty bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, w)
	return len(f.watches) == 0
}
