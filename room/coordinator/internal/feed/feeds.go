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

	"roomd/lockmgr/redisconn/pubsub"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

// Repairs mend a room of which Redis has lost something.
type Repairs interface {
	Renew(ctx context.Context, id, epoch string) error

	// Lost is called with the current state of a room of which Redis has lost commits.
	Lost(ctx context.Context, now *room.Room)

	// KeptNames returns the names of this node whose members have not been removed.
	KeptNames() []string
}

// Feeds are the feeds of all rooms watched on this node. An interrupted connection to Redis may lose messages, so
// after each one every feed reads a snapshot. Feeds are safe for concurrent use.
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

// Committed publishes a commit of this node to its watchers without waiting for Redis, if they know the previous one.
// Otherwise the commit arrives through Redis like any event.
func (fs *Feeds) Committed(id string, c *room.Commit) {
	if f := fs.of(id); f != nil {
		f.committed(c)
	}
}

// Saw records the room as read or written in its feed, if there is one.
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

// At returns the position that the watchers of a room here know; zero if they know none.
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

// Compare requests a snapshot if Redis has lost commits: the room as read is at now, and its watchers were at known
// before the read. Otherwise the watchers would learn of the loss only from the next commit.
func (fs *Feeds) Compare(id string, known, now room.Position) {
	if !known.Gone(now) {
		return
	}
	if f := fs.of(id); f != nil {
		fs.sawGap(f, f.interrupt())
	}
}

func (fs *Feeds) Watched() []string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.Collect(maps.Keys(fs.rooms))
}
