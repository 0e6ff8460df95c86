// Package pubsub keeps one pub/sub connection to Redis for any number of
// subscriptions, knows when each of them stands, and says when messages may have
// been missed. On Redis Cluster it uses sharded channels, with one connection for
// each master that has some.
//
// Start with [New] and [Hub.Subscribe]. The hub's goroutines start with the first
// subscription and end with [Hub.Close].
//
// Redis delivers a message at most once: whatever was published while a
// connection was down is lost. [Handler.Interrupted] says so.
package pubsub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// idlePing is how long a connection may be silent before it is asked whether
	// it still stands.
	idlePing = 3 * time.Second

	// redial is the pause before a lost connection is made anew.
	redial = 100 * time.Millisecond

	// maxMoves is how often a new subscription is sent from one server of a Redis
	// Cluster to another before it fails.
	maxMoves = 20
)

// ErrClosed says that the hub was closed.
var ErrClosed = errors.New("pubsub: hub is closed")

var errMoved = errors.New("pubsub: the channel has moved to another server")

// Handler is what a subscriber does. Its functions are called one at a time, in
// the order of messages, and must return at once. They may not call the
// subscription's Close.
type Handler struct {
	// Message takes what was published.
	Message func(payload string)

	// Interrupted, if not nil, says that the subscription stands again after a
	// break in which messages may have been missed.
	Interrupted func()
}

// Hub shares connections between subscriptions. It is safe for concurrent use.
type Hub struct {
	client redis.UniversalClient
	lost   func(error)

	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	started bool             // guarded by mu
	conns   map[string]*conn // guarded by mu: by the address of the server, "" if there is one
	waiting []*Subscription  // guarded by mu: those that have no connection
	wake    chan struct{}    // says that there are some
}

// New returns a Hub on client. It connects with the first subscription. lost, if
// not nil, is told each time a connection is lost or cannot be made.
func New(client redis.UniversalClient, lost func(error)) *Hub {
	if lost == nil {
		lost = func(error) {}
	}
	h := &Hub{client: client, lost: lost, conns: make(map[string]*conn), wake: make(chan struct{}, 1)}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Subscribe subscribes to a channel and returns at once; [Subscription.Ready]
// says when it stands.
func (h *Hub) Subscribe(channel string, handler Handler) *Subscription {
	s := &Subscription{hub: h, channel: channel, handler: handler, ready: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.Err() != nil {
		s.failLocked(ErrClosed)
		return s
	}
	if !h.started {
		h.started = true
		h.wg.Go(h.route)
	}
	h.waiting = append(h.waiting, s)
	signal(h.wake)
	return s
}

// Close ends all subscriptions and waits for the hub's goroutines.
func (h *Hub) Close() {
	h.mu.Lock()
	h.end()
	h.mu.Unlock()
	h.wg.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.waiting {
		s.failLocked(ErrClosed)
	}
}

// route gives subscriptions their connections.
func (h *Hub) route() {
	for {
		select {
		case <-h.life.Done():
			return
		case <-h.wake:
		}
		h.mu.Lock()
		waiting := h.waiting
		h.waiting = nil
		h.mu.Unlock()
		for _, s := range waiting {
			h.assign(s)
		}
	}
}

func (h *Hub) assign(s *Subscription) {
	address, server, err := h.serverOf(s.channel)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.closed:
		return
	case h.life.Err() != nil:
		s.failLocked(ErrClosed)
		return
	case err != nil:
		h.lost(err)
		h.retryLocked([]*Subscription{s}, err)
		return
	}
	c := h.conns[address]
	if c == nil {
		c = newConn(h, address, server)
		h.conns[address] = c
		h.wg.Go(c.run)
	}
	c.addLocked(s)
}

// serverOf returns where a channel lives: its shard's master on Redis Cluster.
func (h *Hub) serverOf(channel string) (address string, server redis.UniversalClient, err error) {
	cluster, ok := h.client.(*redis.ClusterClient)
	if !ok {
		return "", h.client, nil
	}
	master, err := cluster.MasterForKey(h.life, channel)
	if err != nil {
		return "", nil, err
	}
	return master.Options().Addr, master, nil
}

func (h *Hub) sharded() bool {
	_, ok := h.client.(*redis.ClusterClient)
	return ok
}

// retryLocked looks for new connections for subscriptions that lost theirs.
// Those that nobody could rely on yet fail instead, so that their subscribers
// hear at once that Redis is away.
func (h *Hub) retryLocked(subs []*Subscription, err error) {
	var again []*Subscription
	for _, s := range subs {
		s.conn = nil
		switch {
		case s.closed:
		case !s.stoodLocked():
			s.failLocked(err)
		default:
			again = append(again, s)
		}
	}
	h.againLocked(again)
}

// moveLocked looks for the servers of subscriptions whose slots are not where they
// were thought to be.
func (h *Hub) moveLocked(subs []*Subscription, err error) {
	var again []*Subscription
	for _, s := range subs {
		s.conn = nil
		if s.moves++; s.moves > maxMoves && !s.stoodLocked() {
			s.failLocked(err)
			continue
		}
		again = append(again, s)
	}
	h.againLocked(again)
}

// againLocked gives subscriptions new connections, after a pause.
func (h *Hub) againLocked(again []*Subscription) {
	if h.life.Err() != nil {
		for _, s := range again {
			s.failLocked(ErrClosed)
		}
		return
	}
	if len(again) == 0 {
		return
	}
	h.wg.Go(func() {
		if cluster, ok := h.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(h.life) // which goes on meanwhile
		}
		pause(h.life, redial)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting = append(h.waiting, again...)
		signal(h.wake)
	})
}

// Subscription is one subscriber of one channel. Two of the same channel are
// independent of each other.
type Subscription struct {
	hub     *Hub
	channel string
	handler Handler
	ready   chan struct{} // closed when it stands for the first time, or err is set
	err     error         // written before ready is closed

	conn    *conn  // guarded by hub.mu: nil while it has none
	barrier uint64 // guarded by hub.mu: the ping that follows its SUBSCRIBE, 0 when it stands
	moves   int    // guarded by hub.mu: how often its server was not the one
	closed  bool   // guarded by hub.mu
}

// Ready is closed when the subscription stands: whatever is published from then
// on arrives. It is closed as well when that failed; see Err.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Err returns, once Ready is closed, why the subscription does not stand, or nil.
func (s *Subscription) Err() error { return s.err }

// Close ends the subscription. Its handler is not called after Close has
// returned, unless a call is running.
func (s *Subscription) Close() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.conn != nil {
		s.conn.removeLocked(s)
	}
}

// stoodLocked reports whether the subscription has ever stood.
func (s *Subscription) stoodLocked() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

func (s *Subscription) failLocked(err error) {
	s.closed = true
	if !s.stoodLocked() {
		s.err = err
		close(s.ready)
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
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
