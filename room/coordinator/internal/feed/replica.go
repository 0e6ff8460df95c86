package feed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"roomd/room"
)

// eventLag is how long Meet waits for the event of a version that Redis has.
const eventLag = 100 * time.Millisecond

// Replica is a copy of a room that this node updates from events. The zero value knows no room and does not follow
// one. Its methods must be called by one goroutine at a time.
type Replica struct {
	// Room is nil if unknown. Between Use and Release the caller owns it, and events wait.
	Room *room.Room

	feed *feed // nil while it does not follow
	stop func()
	news chan struct{} // signals an event

	mu     sync.Mutex
	used   bool   // guarded by mu
	held   buffer // guarded by mu: events during use
	missed bool   // guarded by mu: events were lost since Use or CatchUp
	gap    string // guarded by mu: the gap found last
}

// Follow makes r, which must be in use, follow the events of its room. Events before the subscription may be missing.
// If subscribing takes more than one attempt, a snapshot comes first.
func (fs *Feeds) Follow(r *Replica, id string) {
	if r.stop != nil {
		return
	}
	r.news = make(chan struct{}, 1)
	w := &watch{fn: r.put}
	f, err := fs.open(id, w)
	if err != nil { // Close was called
		return
	}
	r.feed, r.stop = f, sync.OnceFunc(func() { fs.remove(f, w) })
}

// Follows reports whether the Replica follows its room.
func (r *Replica) Follows() bool { return r.stop != nil }

// Await waits at most that long for an event that CatchUp has not handled, and reports whether there is one. The
// Replica must follow and be in use.
func (r *Replica) Await(most time.Duration) bool {
	if r.HasNews() { // the usual case
		return true
	}
	end := time.NewTimer(most)
	defer end.Stop()
	for !r.HasNews() {
		select {
		case <-r.news:
		case <-end.C:
			return r.HasNews()
		}
	}
	return true
}

// HasNews reports whether there is an event that CatchUp has not handled.
func (r *Replica) HasNews() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missed || len(r.held.events) > 0
}

// Shadow returns a Replica of a room that is watched here, otherwise nil. It does not keep the room watched.
func (fs *Feeds) Shadow(id string) *Replica {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.rooms[id]
	if f == nil {
		return nil
	}
	r := &Replica{feed: f, news: make(chan struct{}, 1)}
	w := &watch{fn: r.put, aside: true}
	r.stop = func() { f.remove(w) }
	f.add(w)
	return r
}

func (fs *Feeds) Has(r *Replica) bool { return fs.has(r.feed) }

// Active waits until the subscription is active.
func (r *Replica) Active(ctx context.Context) error { return r.feed.sub.Wait(ctx) }

// Behind reports whether events were missed and a snapshot is under way.
func (r *Replica) Behind() bool {
	_, syncing := r.feed.position()
	return syncing
}

// Stop stops following.
func (r *Replica) Stop() {
	if r.stop != nil {
		r.stop()
	}
}

func (r *Replica) put(e *room.Event) {
	if e.Rejoin {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used {
		r.missed = r.held.add(e, 0) || r.missed
	} else {
		r.advanceLocked(e)
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// advanceLocked applies an event to Room. It drops Room if events are missing, or if e is a snapshot, which means
// the same.
func (r *Replica) advanceLocked(e *room.Event) {
	if e.Snapshot != nil {
		r.Room, r.missed = nil, true
	}
	if r.Room == nil || r.Room.Advance(e) {
		return
	}
	if e.Epoch == r.Room.Epoch {
		r.gap = fmt.Sprintf("the event of version %d came after that of version %d", e.Version, r.Room.Version)
	}
	r.Room, r.missed = nil, true
}

// Use gives Room to the caller until Release.
func (r *Replica) Use() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used, r.missed = true, false
}

// Release applies the events that waited, and ends the use.
func (r *Replica) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUpLocked(nil)
	r.used = false
}

// CatchUp applies the events that waited. Room is nil afterwards if some are missing.
func (r *Replica) CatchUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUpLocked(nil)
	r.missed = false
}

// catchUpLocked applies the events that waited: all if is == nil, otherwise only until Room has reached is.
func (r *Replica) catchUpLocked(is *room.Room) {
	if r.missed { // the buffer overflowed
		r.Room = nil
	}
	n := 0
	for ; n < len(r.held.events); n++ {
		if is != nil && (r.Room == nil || r.Room.Position.Compare(is.Position) != room.Later) {
			break
		}
		r.advanceLocked(r.held.events[n])
	}
	if r.held.events = r.held.events[n:]; len(r.held.events) == 0 {
		r.held = buffer{}
	}
}

// Adopt sets Room to a room read since Use, unless events were lost since.
func (r *Replica) Adopt(is *room.Room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.missed {
		r.Room = is
	}
}

// Meet applies events until Room has reached is, a room read since Use, or eventLag is over. at is Room's position,
// order tells if is comes later or earlier, and differences compares the two if both are at the same
// commit. known is false if Room is nil.
func (r *Replica) Meet(ctx context.Context, is *room.Room) (at room.Position, order room.Order, differences string, known bool) {
	ctx, cancel := context.WithTimeout(ctx, eventLag)
	defer cancel()
	for {
		r.mu.Lock()
		r.catchUpLocked(is)
		r.mu.Unlock()
		if r.Room == nil {
			return at, order, "", false
		}
		at, order = r.Room.Position, r.Room.Position.Compare(is.Position)
		if order == room.Same {
			differences = r.Room.Differences(is)
		}
		if order != room.Later {
			return at, order, differences, true
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return at, order, differences, true
		}
	}
}

// Gap returns a gap found between two events since the last call, or "".
func (r *Replica) Gap() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	gap := r.gap
	r.gap = ""
	return gap
}
