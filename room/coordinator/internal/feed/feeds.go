// Package feed has the events of rooms in order and without gaps.
//
// [Feeds] subscribe to the rooms that are watched on this node. Where events were missed, or Redis has lost
// commits, the watchers get a snapshot instead (reread.go). A [Replica] is a room that is kept up to date
// by its events: a worker's copy is one, and what the continuous checks compare with Redis is another.
//
// A goroutine runs from the first watch on, and one for each server while snapshots are read from it.
package feed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"roomd/lockmgr/redisconn/pubsub"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

// Repairs put a room right of which Redis has lost something.
type Repairs interface {
	// Renew begins a new epoch if the room is still in this one.
	Renew(ctx context.Context, id, epoch string) error

	// Lost is called with a room of which Redis has lost commits, as it is now.
	Lost(ctx context.Context, now *room.Room)

	// KeptNames returns the names of this node whose members nobody has removed until now.
	KeptNames() []string
}

// Feeds are the feeds of all rooms that are watched on this node. Messages may be missed while the connection to
// Redis is down, so after each break every feed reads a snapshot. They are safe for concurrent use.
type Feeds struct {
	hub      *pubsub.Hub
	store    *store.Store
	repairs  Repairs
	resynced func() // is called when watchers get a snapshot; may be nil
	logs     logs

	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	started bool             // guarded by mu
	rooms   map[string]*feed // guarded by mu
	behind  []*feed          // guarded by mu: feeds that miss something
	read    chan struct{}    // says that there are some
}

// logs are of what an outage of Redis can cause any number of times.
type logs struct{ snapshots, garbage, over *ratelog.Log }

// New returns Feeds of the events that come through hub, which they close.
func New(hub *pubsub.Hub, st *store.Store, repairs Repairs, resynced func(), set *ratelog.Set) *Feeds {
	fs := &Feeds{hub: hub, store: st, repairs: repairs, resynced: resynced, rooms: make(map[string]*feed), read: make(chan struct{}, 1), logs: logs{
		snapshots: set.Warn("events: snapshot not read, trying again"),
		garbage:   set.Error("events: cannot be read, taking a snapshot instead"),
		over:      set.Warn("events of an epoch that is over were ignored"),
	}}
	fs.life, fs.end = context.WithCancel(context.Background())
	return fs
}

// Close ends all watches.
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
	for range 2 { // a connection that has just broken is made anew
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

// open adds a watch to the feed of a room, and subscribes if it is the first.
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

// remove ends a watch, unless that has ended, and unsubscribes if it was the last.
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

// message takes an event as it comes from Redis.
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

// Committed publishes a commit of this node to the watchers here, without the way through
// Redis, if they know what went before. Otherwise it comes through Redis as any event.
func (fs *Feeds) Committed(id string, c *room.Commit) {
	if f := fs.of(id); f != nil {
		f.committed(c)
	}
}

// Saw has the room's feed here, if there is one, remember the room as it was read or written.
func (fs *Feeds) Saw(r *room.Room) {
	if f := fs.of(r.ID); f != nil {
		fs.sawGap(f, f.saw(r))
	}
}

// Recall gives the room what is known of it here and Redis has lost, if it is watched here; see [room.Room.Recall].
func (fs *Feeds) Recall(r *room.Room) {
	if f := fs.of(r.ID); f != nil {
		f.recall(r)
	}
}

// of returns the room's feed, nil if nobody watches it here.
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

// At returns what the watchers of a room here know; the zero Position is nothing.
func (fs *Feeds) At(id string) room.Position {
	f := fs.of(id)
	if f == nil {
		return room.Position{}
	}
	at, syncing := f.position()
	if syncing {
		return room.Position{}
	}
	return at
}

// Compare has a snapshot read if Redis has lost commits of a room which its watchers knew
// before it was read: they would wait for the next commit to hear that.
func (fs *Feeds) Compare(id string, known, now room.Position) {
	if !known.Gone(now) {
		return
	}
	if f := fs.of(id); f != nil {
		fs.sawGap(f, f.interrupt())
	}
}

// Watched returns the rooms that are watched here.
func (fs *Feeds) Watched() []string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.Collect(maps.Keys(fs.rooms))
}
