package room

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

const (
	// idlePing is how long the pub/sub connection may be silent before it is
	// asked whether it still stands.
	idlePing = 3 * time.Second

	// redial is the pause before a lost pub/sub connection is made anew, and
	// before a snapshot that could not be read is tried again.
	redial = 100 * time.Millisecond
)

// feeds is the node's pub/sub connection and the feeds of all rooms that are
// watched here. The connection is made with the first watch.
//
// PUBLISH is at most once, so whenever a connection was lost, every feed reads a
// snapshot after subscribing again. That a subscription stands is known by a
// PING sent behind it on the same connection: confirmations of SUBSCRIBE alone
// could be those of an earlier subscription to the same channel.
type feeds struct {
	client redis.UniversalClient
	store  *store
	log    zerolog.Logger

	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	started bool             // guarded by mu
	rooms   map[string]*feed // guarded by mu
	outbox  []subscription   // guarded by mu: what the connection has to be told
	pings   uint64           // guarded by mu: the ping that follows all of outbox
	behind  []*feed          // guarded by mu: feeds that want a snapshot

	write chan struct{} // says that outbox or pings has changed
	read  chan struct{} // says that behind is not empty
}

// subscription is a SUBSCRIBE, or an UNSUBSCRIBE.
type subscription struct {
	id  string
	off bool
}

func newFeeds(client redis.UniversalClient, store *store, log zerolog.Logger) *feeds {
	fs := &feeds{
		client: client, store: store, log: log, rooms: make(map[string]*feed),
		write: make(chan struct{}, 1), read: make(chan struct{}, 1),
	}
	fs.life, fs.end = context.WithCancel(context.Background())
	return fs
}

func (fs *feeds) close() {
	fs.mu.Lock()
	fs.end()
	fs.mu.Unlock()
	fs.wg.Wait()
}

func (fs *feeds) watch(ctx context.Context, id string, fn func(*Event)) (stop func(), err error) {
	w := &watch{fn: fn}
	f, err := fs.open(id, w)
	if err != nil {
		return nil, err
	}
	stop = sync.OnceFunc(func() { fs.leave(f, w) })
	select {
	case <-f.ready:
		if f.err != nil {
			stop()
			return nil, fmt.Errorf("watch room %s: %w", id, f.err)
		}
		return stop, nil
	case <-ctx.Done():
		stop()
		return nil, fmt.Errorf("watch room %s: %w", id, context.Cause(ctx))
	case <-fs.life.Done():
		stop()
		return nil, ErrClosed
	}
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
		fs.wg.Go(fs.receive)
		fs.wg.Go(fs.sync)
	}
	f := fs.rooms[id]
	if f == nil {
		f = newFeed(id)
		fs.rooms[id] = f
		f.barrier = fs.sendLocked(subscription{id: id})
	}
	f.add(w)
	return f, nil
}

// leave takes a watch away, and unsubscribes if it was the last.
func (fs *feeds) leave(f *feed, w *watch) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !f.remove(w) || fs.rooms[f.id] != f {
		return
	}
	delete(fs.rooms, f.id)
	fs.sendLocked(subscription{id: f.id, off: true})
}

// sendLocked lets the connection's writer send subscriptions and a ping behind
// them, and returns the ping's number. When that is answered they stand.
func (fs *feeds) sendLocked(subs ...subscription) uint64 {
	fs.outbox = append(fs.outbox, subs...)
	fs.pings++
	signal(fs.write)
	return fs.pings
}

// receive keeps a connection, and passes on what comes.
func (fs *feeds) receive() {
	for fs.life.Err() == nil {
		conn := fs.client.Subscribe(fs.life)
		err := conn.Ping(fs.life) // dials
		if err == nil {
			fs.connected()
			ctx, cancel := context.WithCancel(fs.life)
			var wg sync.WaitGroup
			wg.Go(func() { fs.send(ctx, conn) })
			err = fs.listen(ctx, conn)
			cancel()
			_ = conn.Close()
			wg.Wait()
		}
		_ = conn.Close()
		fs.disconnected(err)
		if fs.life.Err() == nil {
			fs.log.Warn().Err(err).Msg("events: connection to Redis lost, making a new one")
			pause(fs.life, redial)
		}
	}
}

// connected has a new connection subscribed to all rooms that are watched.
func (fs *feeds) connected() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.outbox = nil
	subs := make([]subscription, 0, len(fs.rooms))
	for id := range fs.rooms {
		subs = append(subs, subscription{id: id})
	}
	barrier := fs.sendLocked(subs...)
	for _, f := range fs.rooms {
		f.barrier = barrier
	}
}

// disconnected tells all who still wait for their subscription that Redis is
// away.
func (fs *feeds) disconnected(err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for id, f := range fs.rooms {
		if !f.isReady() {
			f.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
			close(f.ready)
			delete(fs.rooms, id)
		}
	}
}

// send is the connection's writer. What it fails to write, the next connection
// will be told; the reader notices that this one is gone.
func (fs *feeds) send(ctx context.Context, conn *redis.PubSub) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-fs.write:
		}
		fs.mu.Lock()
		subs, ping := fs.outbox, fs.pings
		fs.outbox = nil
		fs.mu.Unlock()
		for len(subs) > 0 {
			off, n := subs[0].off, 0
			var channels []string
			for ; n < len(subs) && subs[n].off == off; n++ {
				channels = append(channels, eventsKey(subs[n].id))
			}
			subs = subs[n:]
			if off {
				_ = conn.Unsubscribe(ctx, channels...)
			} else {
				_ = conn.Subscribe(ctx, channels...)
			}
		}
		_ = conn.Ping(ctx, strconv.FormatUint(ping, 10))
	}
}

// listen passes on what comes until the connection fails.
func (fs *feeds) listen(ctx context.Context, conn *redis.PubSub) error {
	// Receive has no way of its own to end with a context.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	silent := false
	for {
		message, err := conn.ReceiveTimeout(ctx, idlePing)
		if isTimeout(err) && !silent {
			silent = true
			fs.mu.Lock()
			fs.sendLocked()
			fs.mu.Unlock()
			continue
		}
		if err != nil {
			return err
		}
		silent = false
		switch m := message.(type) {
		case *redis.Message:
			fs.message(m)
		case *redis.Pong:
			fs.pong(m.Payload)
		}
	}
}

// pong marks the feeds ready whose subscription was sent before that ping. Those
// that had been ready on an earlier connection may have missed something.
func (fs *feeds) pong(payload string) {
	answered, err := strconv.ParseUint(payload, 10, 64)
	if err != nil {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.rooms {
		if f.barrier == 0 || f.barrier > answered {
			continue
		}
		f.barrier = 0
		if !f.isReady() {
			close(f.ready)
		} else if f.interrupt() {
			fs.behindLocked(f)
		}
	}
}

func (fs *feeds) message(m *redis.Message) {
	id := strings.TrimSuffix(strings.TrimPrefix(m.Channel, "Room:"), ":Events")
	fs.mu.Lock()
	f := fs.rooms[id]
	fs.mu.Unlock()
	if f == nil || !f.isReady() {
		return // it belongs to an earlier subscription
	}
	var w wireEvent
	gap := false
	if err := json.Unmarshal([]byte(m.Payload), &w); err != nil {
		fs.log.Error().Str("room", id).Err(err).Msg("events: cannot be read, taking a snapshot instead")
		gap = f.interrupt()
	} else {
		gap = f.receive(&Event{Room: id, Epoch: w.Epoch, Version: w.Version, From: w.Version - 1, Changes: w.Changes, Replaced: w.Replaced})
	}
	if gap {
		fs.mu.Lock()
		fs.behindLocked(f)
		fs.mu.Unlock()
	}
}

func (fs *feeds) behindLocked(f *feed) {
	fs.behind = append(fs.behind, f)
	signal(fs.read)
}

// sync reads snapshots for the feeds that want one.
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
		for _, f := range behind {
			again := true
			room, err := fs.store.load(fs.life, f.id)
			if err == nil {
				again = f.resume(room.Snapshot())
			} else if fs.life.Err() == nil {
				fs.log.Warn().Str("room", f.id).Err(err).Msg("events: snapshot not read, trying again")
				pause(fs.life, redial)
			}
			if again {
				fs.mu.Lock()
				fs.behindLocked(f)
				fs.mu.Unlock()
			}
		}
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
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
