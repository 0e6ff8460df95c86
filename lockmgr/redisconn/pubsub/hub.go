// Package pubsub shares one pub/sub connection to Redis between any number of subscriptions. It knows when each
// of them is active, and reports when messages may have been lost. On Redis Cluster it uses sharded channels,
// with one connection to each master that has some of them.
//
// Start with [New] and [Hub.Subscribe].
//
// # What it promises
//
//   - A hub never gives up: it retries a subscription until the subscription is closed. [Subscription.Wait]
//     returns the error of one attempt.
//   - [Handler.Interrupted] says that messages may have been lost.
//   - A channel that the user may not subscribe to (NOPERM) does not disturb the others: the hub retries it
//     separately, with pauses that grow to some seconds. The user needs PING, too.
//
// # What it does not promise
//
// Redis delivers a message at most once. Messages that are published while a subscription is not active are lost.
//
// # Goroutines
//
// None until the first subscription. Then one, two for each connection, and one for each pause before another
// attempt. [Hub.Close] ends them and waits for them.
package pubsub

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
)

const (
	// idlePing is how long a connection may be silent before a ping tests it.
	idlePing = 3 * time.Second

	// redial is the pause before a lost connection is replaced.
	redial = 100 * time.Millisecond

	// maxRedial is the longest pause between attempts to subscribe to a channel that is not allowed.
	maxRedial = 5 * time.Second

	// maxMoves is how often servers of a Redis Cluster may redirect a subscription before it counts as a failure.
	maxMoves = 20
)

// ErrClosed says that the subscription or its hub was closed.
var ErrClosed = errors.New("pubsub: closed")

var errMoved = errors.New("pubsub: the channel has moved to another server")

// Handler has the functions of a subscriber. The hub calls them one at a time, in the order of messages. They
// must return at once.
type Handler struct {
	// Message is called with each message.
	Message func(payload string)

	// Interrupted, if not nil, is called when the subscription is active and messages may have been lost before: after
	// a lost connection, or after a failed attempt, even the first. The call comes before the next message.
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
	conns   map[string]*conn // guarded by mu: by the server's address, "" without a Cluster
	waiting []*Subscription  // guarded by mu: they need a connection
	wake    chan struct{}    // signals that some are waiting
}

// New returns a Hub on client. It connects with the first subscription. lost, if not nil, is called each time a
// connection is lost or cannot be made, and when Redis starts to refuse a channel.
func New(client redis.UniversalClient, lost func(error)) *Hub {
	if lost == nil {
		lost = func(error) {}
	}
	h := &Hub{client: client, lost: lost, conns: make(map[string]*conn), wake: make(chan struct{}, 1)}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Subscribe subscribes to a channel and returns at once. The hub keeps trying until the subscription is active,
// and tries again whenever the subscription is no longer active.
func (h *Hub) Subscribe(channel string, handler Handler) *Subscription {
	s := &Subscription{hub: h, channel: channel, handler: handler, attempt: newAttempt(),
		denied: pause.Backoff{First: 2 * redial, Max: maxRedial}}
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

// Close ends all subscriptions and waits for the hub's goroutines. If one of them is connecting, that may take
// as long as the client's timeouts.
func (h *Hub) Close() {
	h.mu.Lock()
	h.end()
	h.mu.Unlock()
	h.wg.Wait()
}

// route assigns connections to waiting subscriptions.
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
			if err := h.assign(s); err != nil { // the others would fail, too
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

// failed reports that subscriptions have no connection, and retries them.
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

// refusedLocked retries a subscription that its server has refused or ended. news says that the user lacks the right,
// for the first time since the subscription was active. A slot that has moved is no failure, unless servers redirect
// the subscription too often.
func (h *Hub) refusedLocked(s *Subscription, err error) (news bool) {
	s.refusals++
	after := redial
	if redis.IsPermissionError(err) {
		news = s.refusals == 1
		after = s.denied.Next()
		s.failLocked(err)
	} else if s.wasActiveLocked() || s.refusals%maxMoves == 0 {
		s.failLocked(err)
	}
	h.retryLocked([]*Subscription{s}, after)
	return news
}

// retryLocked assigns new connections to the subscriptions that are not closed, after a pause.
func (h *Hub) retryLocked(subs []*Subscription, after time.Duration) {
	subs = slices.DeleteFunc(subs, func(s *Subscription) bool { s.conn = nil; return s.closed })
	if len(subs) == 0 || h.life.Err() != nil {
		return
	}
	h.wg.Go(func() {
		if cluster, ok := h.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(h.life) // runs during the pause
		}
		_ = pause.For(h.life, after)
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
