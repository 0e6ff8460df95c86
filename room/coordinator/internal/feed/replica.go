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

// Replica is a room as this node has built it from events. The zero value knows nothing and follows
// nothing. Its methods are for one goroutine at a time.
type Replica struct {
	// Room is nil if it is not known. It is the caller's between Use and Release: events wait meanwhile.
	Room *room.Room

	feed *feed // nil while it does not follow
	stop func()
	news chan struct{} // an event has come

	mu     sync.Mutex
	used   bool   // guarded by mu
	held   buffer // guarded by mu: while it is used
	missed bool   // guarded by mu: something was missing among those that were held
	gap    string // guarded by mu: what was missing between two events
}

// Follow keeps a room that is in use up to date from now on, by the room's events. It may miss events before
// the subscription is established. If that takes more than one attempt, a snapshot comes first.
func (fs *Feeds) Follow(r *Replica, id string) {
	if r.stop != nil {
		return
	}
	r.news = make(chan struct{}, 1)
	w := &watch{fn: r.put}
	f, err := fs.open(id, w)
	if err != nil { // closed
		return
	}
	r.feed, r.stop = f, sync.OnceFunc(func() { fs.remove(f, w) })
}

// Follows reports whether Follow was called.
func (r *Replica) Follows() bool { return r.stop != nil }

// Await waits until an event has come that CatchUp has not seen, for at most so long, and reports whether one has. It
// is for a Replica that follows and is in use.
func (r *Replica) Await(most time.Duration) bool {
	if r.HasNews() { // as most often
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

// HasNews reports whether an event has come that CatchUp has not seen.
func (r *Replica) HasNews() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missed || len(r.held.events) > 0
}

// Shadow returns a Replica of a room that is watched here, or nil if it is not. Nothing stays watched for its sake.
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

// Has reports whether the room of a Shadow is still watched here.
func (fs *Feeds) Has(r *Replica) bool { return fs.has(r.feed) }

// Active waits until events come.
func (r *Replica) Active(ctx context.Context) error { return r.feed.sub.Wait(ctx) }

// Behind reports whether it is known that something was missed, and a snapshot is read.
func (r *Replica) Behind() bool {
	_, syncing := r.feed.position()
	return syncing
}

// Stop ends following.
func (r *Replica) Stop() {
	if r.stop != nil {
		r.stop()
	}
}

// put takes an event, in order.
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

// advanceLocked brings Room to an event, or forgets it: if something is missing, and after a snapshot, which
// says that something was.
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

// Use makes Room the caller's, until Release.
func (r *Replica) Use() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used, r.missed = true, false
}

// Release has events count again.
func (r *Replica) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUpLocked(nil)
	r.used = false
}

// CatchUp brings Room to where the events that came say that it is. If some are missing it is nil then.
func (r *Replica) CatchUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUpLocked(nil)
	r.missed = false
}

// catchUpLocked follows the events that were held: all, or as far as the room is as it was read.
func (r *Replica) catchUpLocked(is *room.Room) {
	if r.missed { // by the buffer
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

// Adopt makes a room Room that was read since Use, unless something was missing since.
func (r *Replica) Adopt(is *room.Room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.missed {
		r.Room = is
	}
}

// Meet brings Room to the version of a room that was read since Use, as far as its events come, and
// compares them: order is how that is behind at, which is where Room is, and differences says how they
// differ if both are at one version. known is false if Room is nil.
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

// Gap returns what was missing between two events since it was last asked.
func (r *Replica) Gap() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	gap := r.gap
	r.gap = ""
	return gap
}
