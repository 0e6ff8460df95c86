// Package pubsub keeps one pub/sub connection to Redis for any number of
// subscriptions, knows when each of them stands, and says when messages may have
// been missed. On Redis Cluster it uses sharded channels, with one connection for
// each master that has some.
//
// Start with [New] and [Hub.Subscribe]. The hub's goroutines start with the first
// subscription and end with [Hub.Close].
//
// A hub never gives up: a subscription that does not stand, from the start or
// because its connection was lost, is tried again until it is closed. Whoever wants
// to hear at once that Redis is away asks with [Subscription.Wait].
//
// Redis delivers a message at most once: whatever was published while a
// subscription did not stand is lost. [Handler.Interrupted] says so.
//
// A channel that the user may not subscribe to (NOPERM) disturbs no other: it is
// tried by itself, with pauses that grow to some seconds. The user needs PING too.
package pubsub

import (
	"context"
	"errors"
	"slices"
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

	// maxRedial is the longest pause between two attempts at a channel that the
	// user may not subscribe to.
	maxRedial = 5 * time.Second

	// maxMoves is how often a subscription is sent from one server of a Redis
	// Cluster to another before that counts as a failure.
	maxMoves = 20
)

// ErrClosed says that the subscription or its hub was closed.
var ErrClosed = errors.New("pubsub: closed")

var errMoved = errors.New("pubsub: the channel has moved to another server")

// Handler is what a subscriber does. Its functions are called one at a time, in
// the order of messages, and must return at once. They may not call the
// subscription's Close.
type Handler struct {
	// Message takes what was published.
	Message func(payload string)

	// Interrupted, if not nil, says that the subscription stands after a time in
	// which messages may have been missed: after a break, and after an attempt
	// that failed, also if it has never stood before. It comes before the first
	// message. Where the first attempt succeeds there is nothing to say.
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
// not nil, is told each time a connection is lost or cannot be made, and when Redis
// begins to refuse a channel.
func New(client redis.UniversalClient, lost func(error)) *Hub {
	if lost == nil {
		lost = func(error) {}
	}
	h := &Hub{client: client, lost: lost, conns: make(map[string]*conn), wake: make(chan struct{}, 1)}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Subscribe subscribes to a channel and returns at once. The hub tries until the
// subscription stands, and again whenever it does not any more.
func (h *Hub) Subscribe(channel string, handler Handler) *Subscription {
	s := &Subscription{hub: h, channel: channel, handler: handler, attempt: newAttempt()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.Err() != nil {
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

// Close ends all subscriptions and waits for the hub's goroutines: at most for as
// long as the client's timeouts, if one of them is just connecting.
func (h *Hub) Close() {
	h.mu.Lock()
	h.end()
	h.mu.Unlock()
	h.wg.Wait()
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
		for i, s := range waiting {
			if err := h.assign(s); err != nil { // the others would wait for the same
				h.failed(waiting[i:], err)
				break
			}
		}
	}
}

func (h *Hub) assign(s *Subscription) error {
	address, server, err := h.serverOf(s.channel)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.closed || h.life.Err() != nil {
		return nil
	}
	c := h.conns[address]
	if c == nil {
		c = newConn(h, address, server)
		h.conns[address] = c
		h.wg.Go(c.run)
	}
	c.addLocked(s)
	return nil
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

// failed tells everybody that subscriptions have no connection, and tries again.
func (h *Hub) failed(subs []*Subscription, err error) {
	if h.life.Err() != nil {
		return
	}
	h.lost(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range subs {
		s.failLocked(err)
	}
	h.retryLocked(subs, redial)
}

// refusedLocked tries a subscription again that its server has refused, or ended,
// and reports whether that is news. That another server has its slot is no failure,
// unless it goes on for long.
func (h *Hub) refusedLocked(s *Subscription, err error) (news bool) {
	s.refusals++
	after := redial
	if redis.IsPermissionError(err) {
		news = s.refusals == 1
		after = min(redial<<min(s.refusals, 10), maxRedial)
		s.failLocked(err)
	} else if s.stoodLocked() || s.refusals%maxMoves == 0 {
		s.failLocked(err)
	}
	h.retryLocked([]*Subscription{s}, after)
	return news
}

// retryLocked gives subscriptions new connections, after a pause.
func (h *Hub) retryLocked(subs []*Subscription, after time.Duration) {
	subs = slices.DeleteFunc(subs, func(s *Subscription) bool { s.conn = nil; return s.closed })
	if len(subs) == 0 || h.life.Err() != nil {
		return
	}
	h.wg.Go(func() {
		if cluster, ok := h.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(h.life) // which goes on meanwhile
		}
		pause(h.life, after)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting = append(h.waiting, subs...)
		signal(h.wake)
	})
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
