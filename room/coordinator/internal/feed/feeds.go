// Package feed provides the events of rooms, in order and without gaps.
//
// [Feeds] subscribes to the rooms that are watched on this node. If events were missed, or Redis has lost commits,
// the watchers get a snapshot (reread.go). A [Replica] is a copy of a room that follows its events: workers use one,
// and the continuous checks compare another with Redis.
//
// A goroutine runs from the first watch on, and one per server while snapshots are read from there.
package feed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"roomd/lockmgr/redisconn/pubsub"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

// Repairs mend a room after Redis has lost a part of it.
type Repairs interface {
	// Renew begins a new epoch of a room that is in the given one.
	Renew(ctx context.Context, id, epoch string) error

	// Lost is called when Redis has lost commits of a room. now is the room's current state.
	Lost(ctx context.Context, now *room.Room)

	// KeptNames returns the names of this node whose members have not been removed.
	KeptNames() []string
}

// Feeds are the feeds of all rooms watched on this node. An interrupted connection to Redis may lose messages, so
// after an interruption every feed reads a snapshot. Feeds are safe for concurrent use.
type Feeds struct {
	hub      *pubsub.Hub
	store    *store.Store
	repairs  Repairs
	resynced func() // called when watchers get a snapshot; may be nil
	logs     logs

	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	started bool             // guarded by mu
	rooms   map[string]*feed // guarded by mu
	behind  []*feed          // guarded by mu: feeds that need a snapshot
	read    chan struct{}    // signals that behind is not empty
}

// logs limit the rate of messages that an outage of Redis can repeat.
type logs struct{ snapshots, garbage, over *ratelog.Log }

// New returns Feeds of the events from hub. Close closes hub, too.
func New(hub *pubsub.Hub, st *store.Store, repairs Repairs, resynced func(), set *ratelog.Set) *Feeds {
	fs := &Feeds{hub: hub, store: st, repairs: repairs, resynced: resynced, rooms: make(map[string]*feed),
		read: make(chan struct{}, 1), logs: logs{
			snapshots: set.Warn("events: snapshot not read, trying again"),
			garbage:   set.Error("events: cannot be read, taking a snapshot instead"),
			over:      set.Warn("events of an epoch that is over were ignored"),
		}}
	fs.life, fs.end = context.WithCancel(context.Background())
	return fs
}

// Close ends all watches, and waits for the goroutines.
func (fs *Feeds) Close() {
	fs.mu.Lock()
	fs.end()
	fs.mu.Unlock()
	fs.hub.Close()
	fs.wg.Wait()
}

// Watch calls fn for the events of a room; see Coordinator.Watch.
func (fs *Feeds) Watch(ctx context.Context, id string, fn func(*room.Event)) (stop func(), err error) {
	w := &watch{fn: fn}
	f, err := fs.open(id, w)
	if err != nil {
		return nil, err
	}
	stop = func() { fs.remove(f, w) }
	for range 2 { // a connection that has just broken gets a second attempt
		if err = f.sub.Wait(ctx); err == nil {
			f.subscribed()
			return stop, nil
		}
	}
	stop()
	switch {
	case fs.life.Err() != nil:
		err = room.ErrClosed
	case ctx.Err() == nil:
		err = fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	return nil, fmt.Errorf("watch room %s: %w", id, err)
}

// open adds a watch to the feed of a room. The first one subscribes.
func (fs *Feeds) open(id string, w *watch) (*feed, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.life.Err() != nil {
		return nil, room.ErrClosed
	}
	if !fs.started {
		fs.started = true
		fs.wg.Go(fs.sync)
	}
	f := fs.rooms[id]
	if f == nil {
		f = newFeed(id)
		f.sub = fs.hub.Subscribe(fs.store.KeysOf(id).Events, pubsub.Handler{
			Message:     func(payload string) { fs.message(f, payload) },
			Interrupted: func() { fs.sawGap(f, f.interrupt()) },
		})
		fs.rooms[id] = f
	}
	f.add(w)
	return f, nil
}

// remove ends a watch, if it has not ended. The last one unsubscribes.
func (fs *Feeds) remove(f *feed, w *watch) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !f.remove(w) {
		return
	}
	f.sub.Close()
	if fs.rooms[f.id] == f {
		delete(fs.rooms, f.id)
	}
}

func (fs *Feeds) message(f *feed, payload string) {
	if at, ok := store.PositionIn(payload); ok && f.knows(at) {
		return
	}
	c, err := store.ParseCommit(payload)
	if err != nil {
		fs.logs.garbage.Happened(err, "room", f.id)
		fs.sawGap(f, f.interrupt())
		return
	}
	fs.sawGap(f, f.receive(c.Event(f.id), len(payload)))
}

// Committed publishes commit c of this node to the room's watchers here, if they know the previous one, without
// waiting for Redis. Otherwise the commit arrives through Redis like any event. Then Committed does what Saw does. r is
// the room after the commit; c is nil if nothing was written.
func (fs *Feeds) Committed(r *room.Room, c *room.Commit) {
	if f := fs.of(r.ID); f != nil {
		if c != nil {
			f.committed(c)
		}
		fs.sawGap(f, f.saw(r))
	}
}

// Saw tells the room's feed, if there is one, of the room as it was just read or written.
func (fs *Feeds) Saw(r *room.Room) {
	if f := fs.of(r.ID); f != nil {
		fs.sawGap(f, f.saw(r))
	}
}

// Recall restores what Redis has lost of the room, if it is watched here; see [room.Room.Recall].
func (fs *Feeds) Recall(r *room.Room) {
	if f := fs.of(r.ID); f != nil {
		f.recall(r)
	}
}

func (fs *Feeds) of(id string) *feed {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.rooms[id]
}

// Rejoin publishes in all rooms that the node has a new name.
func (fs *Feeds) Rejoin() {
	fs.mu.Lock()
	rooms := slices.Collect(maps.Values(fs.rooms))
	fs.mu.Unlock()
	for _, f := range rooms {
		f.rejoin()
	}
}

func (fs *Feeds) Watched() []string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.Collect(maps.Keys(fs.rooms))
}

// sawGap requests a snapshot for a feed if gap is true.
func (fs *Feeds) sawGap(f *feed, gap bool) {
	if !gap {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.behind = append(fs.behind, f)
	select {
	case fs.read <- struct{}{}:
	default:
	}
}

func (fs *Feeds) has(f *feed) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.rooms[f.id] == f
}

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
	held   buffer // guarded by mu: events since Use
	missed bool   // guarded by mu: events were lost since Use or CatchUp
	gap    string // guarded by mu: the gap found last
}

// Follow makes r, which must be in use, follow the events of room id. Events before the subscription may be missing.
// If subscribing takes more than one attempt, a snapshot comes first. After Close, Follow does nothing.
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

// Await waits for an event that CatchUp has not handled, at most for the time most, and reports whether there is one.
// The Replica must follow and be in use.
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

// HasNews reports whether there is an event that CatchUp has not handled, or one was lost.
func (r *Replica) HasNews() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missed || len(r.held.events) > 0
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

// catchUpLocked applies the events that waited: all of them or, if is is not nil, until Room is as new as is.
func (r *Replica) catchUpLocked(is *room.Room) {
	if r.missed { // the buffer overflowed
		r.Room = nil
	}
	n := 0
	for ; n < len(r.held.events); n++ {
		if is != nil && (r.Room == nil || !r.Room.Precedes(is.Position)) {
			break
		}
		r.advanceLocked(r.held.events[n])
	}
	if r.held.events = r.held.events[n:]; len(r.held.events) == 0 {
		r.held = buffer{}
	}
}
