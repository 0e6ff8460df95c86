package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"roomd/lockmgr/redisconn/pubsub"
	"roomd/room"
)

// feeds are the feeds of all rooms that are watched on this node. Messages may be
// missed while the connection to Redis is down, so after each break every feed
// reads a snapshot.
type feeds struct {
	hub      *pubsub.Hub
	store    *store
	episodes *episodes
	trace    *Trace
	renew    func(ctx context.Context, id, epoch string) // begins a new epoch if the room is still in this one
	alive    func() []string                             // names of this node whose members nobody has removed until now
	lost     func(ctx context.Context, r *room.Room)     // Redis has lost commits of r, as it is now

	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	started bool             // guarded by mu
	rooms   map[string]*feed // guarded by mu
	behind  []*feed          // guarded by mu: feeds that miss something
	read    chan struct{}    // says that there are some
}

func newFeeds(hub *pubsub.Hub, store *store, episodes *episodes, trace *Trace) *feeds {
	fs := &feeds{hub: hub, store: store, episodes: episodes, trace: trace, rooms: make(map[string]*feed), read: make(chan struct{}, 1)}
	fs.life, fs.end = context.WithCancel(context.Background())
	return fs
}

func (fs *feeds) close() {
	fs.mu.Lock()
	fs.end()
	fs.mu.Unlock()
	fs.hub.Close()
	fs.wg.Wait()
}

// watch calls fn for the events of a room; see Coordinator.Watch.
func (fs *feeds) watch(ctx context.Context, id string, fn func(*room.Event)) (stop func(), err error) {
	w := &watch{fn: fn}
	f, err := fs.open(id, w)
	if err != nil {
		return nil, err
	}
	stop = sync.OnceFunc(func() { fs.remove(f, w) })
	for range 2 { // a connection that has just broken is made anew
		if err = f.sub.Wait(ctx); err == nil {
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

// follow is watch without waiting for the subscription: fn may miss events before that is
// established. If it takes more than one attempt, a snapshot comes first. After the feeds
// are closed it does nothing.
func (fs *feeds) follow(id string, fn func(*room.Event)) (stop func()) {
	w := &watch{fn: fn}
	f, err := fs.open(id, w)
	if err != nil {
		return func() {}
	}
	return sync.OnceFunc(func() { fs.remove(f, w) })
}

// open adds a watch to the feed of a room, and subscribes if it is the first.
func (fs *feeds) open(id string, w *watch) (*feed, error) {
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
		f.sub = fs.hub.Subscribe(fs.store.keysOf(id).events, pubsub.Handler{
			Message:     func(payload string) { fs.message(f, payload) },
			Interrupted: func() { fs.sawGap(f, f.interrupt()) },
		})
		fs.rooms[id] = f
	}
	f.add(w)
	return f, nil
}

// remove ends a watch, and unsubscribes if it was the last.
func (fs *feeds) remove(f *feed, w *watch) {
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
func (fs *feeds) message(f *feed, payload string) {
	if at, ok := positionIn(payload); ok && f.knows(at) {
		return
	}
	c, err := parseCommit(payload)
	if err != nil {
		fs.episodes.garbage.Happened(err, "room", f.id)
		fs.sawGap(f, f.interrupt())
		return
	}
	fs.sawGap(f, f.receive(c.Event(f.id), len(payload)))
}

// committed publishes a commit of this node to the watchers here, without the way through
// Redis, if they know what went before. Otherwise it comes through Redis as any event.
func (fs *feeds) committed(id string, c *room.Commit) {
	fs.mu.Lock()
	f := fs.rooms[id]
	fs.mu.Unlock()
	if f != nil {
		f.committed(c)
	}
}

// rejoin publishes in all rooms that the node has a new name.
func (fs *feeds) rejoin() {
	fs.mu.Lock()
	rooms := slices.Collect(maps.Values(fs.rooms))
	fs.mu.Unlock()
	for _, f := range rooms {
		f.rejoin()
	}
}

// at returns what the watchers of a room here know; the zero Position is nothing.
func (fs *feeds) at(id string) room.Position {
	fs.mu.Lock()
	f := fs.rooms[id]
	fs.mu.Unlock()
	if f == nil {
		return room.Position{}
	}
	at, syncing := f.position()
	if syncing {
		return room.Position{}
	}
	return at
}

// compare has a snapshot read if Redis has lost commits of a room which its watchers knew
// before it was read: they would wait for the next commit to hear that.
func (fs *feeds) compare(id string, known, now room.Position) {
	if !known.Gone(now) {
		return
	}
	fs.mu.Lock()
	f := fs.rooms[id]
	fs.mu.Unlock()
	if f != nil {
		fs.sawGap(f, f.interrupt())
	}
}
