package room

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"roomd/lockmgr/redisconn/pubsub"
)

// rereadPause is the pause before a snapshot that could not be read is tried
// again.
const rereadPause = 100 * time.Millisecond

// foreignPause is the same where the room's keys hold something that is not roomd's.
const foreignPause = 5 * time.Second

// rereadTimeout is how long one attempt may take.
const rereadTimeout = 3 * time.Second

// feeds are the feeds of all rooms that are watched on this node. Messages may be
// missed while the connection to Redis is down, so after each break every feed
// reads a snapshot.
type feeds struct {
	hub      *pubsub.Hub
	store    *store
	troubles *troubles
	renew    func(ctx context.Context, id, epoch string, version uint64)
	alive    func() []string // names of this node whose members nobody has removed until now
	forgot   func(ctx context.Context, r *Room)

	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	started bool             // guarded by mu
	rooms   map[string]*feed // guarded by mu
	behind  []*feed          // guarded by mu: feeds that want a snapshot
	read    chan struct{}    // says that there are some
}

func newFeeds(hub *pubsub.Hub, store *store, troubles *troubles) *feeds {
	fs := &feeds{hub: hub, store: store, troubles: troubles, rooms: make(map[string]*feed), read: make(chan struct{}, 1)}
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

func (fs *feeds) watch(ctx context.Context, id string, fn func(*Event)) (stop func(), err error) {
	w := &watch{fn: fn}
	f, err := fs.open(id, w)
	if err != nil {
		return nil, err
	}
	stop = sync.OnceFunc(func() { fs.leave(f, w) })
	for range 2 { // a connection that has just broken is made anew
		if err = f.sub.Wait(ctx); err == nil {
			return stop, nil
		}
	}
	stop()
	switch {
	case fs.life.Err() != nil:
		err = ErrClosed
	case ctx.Err() == nil:
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil, fmt.Errorf("watch room %s: %w", id, err)
}

// follow is watch for somebody who does not mind what is missing before the
// subscription stands, nor whether it ever does; if that takes more than one attempt, a
// snapshot follows. After the feeds are closed it does nothing.
func (fs *feeds) follow(id string, fn func(*Event)) (stop func()) {
	w := &watch{fn: fn}
	f, err := fs.open(id, w)
	if err != nil {
		return func() {}
	}
	return sync.OnceFunc(func() { fs.leave(f, w) })
}

// open adds a watch to the feed of a room, and subscribes if it is the first.
func (fs *feeds) open(id string, w *watch) (*feed, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.life.Err() != nil {
		return nil, ErrClosed
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

// leave takes a watch away, and unsubscribes if it was the last.
func (fs *feeds) leave(f *feed, w *watch) {
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

func (fs *feeds) message(f *feed, payload string) {
	if epoch, version, mark, ok := eventAt(payload); ok && f.knows(epoch, version, mark) {
		return
	}
	e, err := parseEvent(f.id, payload)
	if err != nil {
		fs.troubles.garbage.Happened(err, "room", f.id)
		fs.sawGap(f, f.interrupt())
		return
	}
	fs.sawGap(f, f.receive(e))
}

// committed tells a commit of this node to those who watch here, without the way
// through Redis, if what went before has been told. Otherwise it comes as any event.
func (fs *feeds) committed(id string, w *wireEvent) {
	fs.mu.Lock()
	f := fs.rooms[id]
	fs.mu.Unlock()
	if f != nil {
		f.committed(w)
	}
}

// rejoin has everybody who watches told that the node has a new name.
func (fs *feeds) rejoin() {
	fs.mu.Lock()
	rooms := slices.Collect(maps.Values(fs.rooms))
	fs.mu.Unlock()
	for _, f := range rooms {
		f.renewed()
	}
}

// sawGap has a snapshot read for a feed that misses something.
func (fs *feeds) sawGap(f *feed, gap bool) {
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

// sync has snapshots read for the feeds that want one: from each server one after the
// other, and a server that hangs holds up only its own.
func (fs *feeds) sync() {
	for {
		select {
		case <-fs.life.Done():
			return
		case <-fs.read:
		}
		fs.mu.Lock()
		behind := fs.behind
		fs.behind = nil
		fs.mu.Unlock()
		servers := make(map[string][]*feed)
		for _, f := range behind {
			at := masterOf(fs.life, fs.store.client, fs.store.keysOf(f.id).meta)
			servers[at] = append(servers[at], f)
		}
		for _, behind := range servers {
			fs.wg.Go(func() {
				for _, f := range behind {
					fs.reread(f)
				}
			})
		}
	}
}

// reread reads a snapshot for a feed, or asks for another attempt.
func (fs *feeds) reread(f *feed) {
	ctx, cancel := context.WithTimeout(fs.life, rereadTimeout)
	defer cancel()
	room, err := fs.store.load(ctx, f.id)
	switch {
	case err == nil:
		if f.forgot(room) {
			fs.wg.Go(func() { fs.forgot(fs.life, room) })
		}
		if epoch, version, behind := f.behind(room); behind {
			// Its event, of a new epoch, brings everybody here up to date.
			fs.wg.Go(func() { fs.renew(fs.life, f.id, epoch, version) })
		}
		fs.sawGap(f, f.resume(room, fs.alive()))
	case errors.Is(err, errForeign): // only an operator can help; the other feeds do not wait for that
		fs.troubles.snapshots.Happened(err, "room", f.id)
		fs.wg.Go(func() {
			pause(fs.life, foreignPause)
			fs.sawGap(f, fs.has(f))
		})
	case fs.life.Err() == nil:
		fs.troubles.snapshots.Happened(err, "room", f.id)
		pause(fs.life, rereadPause)
		fs.sawGap(f, true)
	}
}

// has reports whether anybody still watches by a feed.
func (fs *feeds) has(f *feed) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.rooms[f.id] == f
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
