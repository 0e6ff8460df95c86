// Package cluster is one node's view of the nodes that share a Redis.
//
// A [Node] prolongs the lease on its name, which shows the others that it lives (lease.go). It records the rooms
// where it may have members, and keeps comparing these records with the rooms (registration.go, the only place that
// writes them). When another node's lease is over it shows that node's members as away, and removes them after their
// grace (eviction.go).
//
// On a Cluster all keys of a node share a hash slot (identity.go); if its master is away the node moves to another
// slot.
//
// From [Node.Start] until the open context of [New] ends three goroutines run: one prolongs the lease, one watches
// the other nodes, one compares records with rooms. Requests to several rooms at once have goroutines of their own.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

// Actions run actions on rooms, each under its room's lock.
type Actions interface {
	Run(ctx context.Context, id string, a room.Action) (room.Result, error)
}

// Watchers are the watchers of rooms on this node.
type Watchers interface {
	// Rejoin tells the watchers that the node has a new name.
	Rejoin()

	// Watched returns the ids of the watched rooms.
	Watched() []string

	// At returns the position that the watchers of a room know. Compare gets it, with the room read from Redis
	// afterwards, and resynchronises the watchers if Redis has lost commits.
	At(id string) room.Position
	Compare(known room.Position, now *room.Room)
}

// Options say how a [Node] works.
type Options struct {
	Name     string
	Address  string
	Settings Settings

	Renamed func()                          // called when the node has taken a new name
	Died    func(node string)               // called when a node counts as dead, perhaps on several nodes
	Evicted func(members int, stopped bool) // called for removed members of a dead node; stopped: it had drained
	Log     *slog.Logger
}

// Node is this node among the others. It is safe for concurrent use.
type Node struct {
	opts     Options
	store    *store.Store
	actions  Actions
	watchers Watchers
	logs     logs
	open     context.Context // ends the loops
	life     context.Context // ends requests, which may finish after open has ended

	lease         *lease
	registrations registrations
	unlisted      unlisted
	answerFor     func(room, session string) bool

	loops sync.WaitGroup

	turn atomic.Pointer[time.Time] // when the latest turn of keepLease began; nil while it does not run

	mu      sync.Mutex
	started bool // guarded by mu: the loops run
	closed  bool // guarded by mu
}

// logs limit the rate of messages that an outage of Redis can repeat.
type logs struct{ lease, renamed, eviction, unanswered, registration *ratelog.Log }

// New returns a Node that other nodes do not know yet. open ends its loops, life the requests that may run longer.
func New(open, life context.Context, st *store.Store, actions Actions, watchers Watchers, set *ratelog.Set,
	opts Options) *Node {
	n := &Node{
		opts: opts, store: st, actions: actions, watchers: watchers, open: open, life: life, lease: newLease(st, opts),
		registrations: registrations{users: make(map[string]int), gone: make(map[string]chan struct{})},
		logs: logs{
			lease:      set.Warn("the node's lease could not be prolonged"),
			renamed:    set.Warn("the node's lease, or commits under it, were lost; its sessions join again under a new name"),
			eviction:   set.Warn("members of dead nodes could not be removed, trying again"),
			unanswered: set.Warn("members without a session could not be removed, trying again"),
			registration: set.WarnOver(compareRound,
				"a room could not be compared with the records of this node there, trying again"),
		},
	}
	return n
}

// SetAddress sets Options.Address. Call it before Start.
func (n *Node) SetAddress(address string) { n.lease.address = address }

// Address returns the address set by Options or SetAddress.
func (n *Node) Address() string { return n.lease.address }

// AnswerFor sets fn, which reports whether a session of this node still belongs in a room. Call it before Start.
func (n *Node) AnswerFor(fn func(room, session string) bool) { n.answerFor = fn }

// Name returns the node's name. It changes when the lease is lost.
func (n *Node) Name() string {
	who, _ := n.lease.holder()
	return who.Node
}

// KeptNames returns the node's current and recent names whose members have certainly not been removed.
func (n *Node) KeptNames() []string { return n.lease.keptNames() }

// Start makes sure that the lease is valid and the loops run, or fails with [room.ErrClosed] or [room.ErrUnavailable].
func (n *Node) Start(ctx context.Context) error {
	if _, valid := n.lease.holder(); !valid {
		switch err := n.Prolong(ctx); {
		case errors.Is(err, room.ErrClosed):
			return room.ErrClosed
		case err != nil:
			return fmt.Errorf("announce the node: %w: %w", room.ErrUnavailable, err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.started:
		return nil
	case n.closed:
		return room.ErrClosed
	}
	n.started = true
	n.loops.Go(n.keepLease)
	n.loops.Go(newEvictor(n).loop)
	n.loops.Go(n.compareLoop)
	return nil
}

// Refuse prevents a later Start from starting the loops.
func (n *Node) Refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
}

// Wait waits for the loops, which end with the open context of New.
func (n *Node) Wait() { n.loops.Wait() }

// End releases the lease: the grace of the node's members begins. It has its own timeout, and ignores the end of ctx.
func (n *Node) End(ctx context.Context) error { return n.lease.end(ctx) }

// Vanish stops the node like a crash, without releasing the lease. Call it after the open context has ended. It is
// for tests.
func (n *Node) Vanish() {
	n.Wait()
	n.lease.mu.Lock()
	defer n.lease.mu.Unlock()
	n.lease.until = time.Time{} // as if the node had never had a lease
}

func (n *Node) keepLease() {
	defer n.turn.Store(nil)
	for {
		now := time.Now()
		n.turn.Store(&now)
		if pause.For(n.open, n.opts.Settings.NodeTTL/3) != nil {
			return
		}
		if err := n.Prolong(n.open); err != nil && n.open.Err() == nil {
			n.logs.lease.Happened(err)
		}
	}
}

// stallTurns is the number of NodeTTLs after which a turn of keepLease has certainly ended. While Redis does not
// answer, a turn on a Cluster tries several masters, each for a part of a NodeTTL.
const stallTurns = 10

// Alive returns an error if the loop that prolongs the lease has stalled. A Redis that does not answer is no stall.
func (n *Node) Alive() error {
	_, _ = n.lease.holder()
	n.mu.Lock()
	defer n.mu.Unlock()
	turn := n.turn.Load()
	if turn == nil || time.Since(*turn) <= stallTurns*n.opts.Settings.NodeTTL {
		return nil
	}
	return fmt.Errorf("the loop that prolongs the node's lease has made no turn for %v",
		time.Since(*turn).Round(time.Second))
}

// Prolong begins the first lease, or prolongs the lease. If it was lost, all members on this node must join again under
// the new name. When ctx ends, the attempt continues without the caller. After End, Prolong fails with room.ErrClosed.
func (n *Node) Prolong(ctx context.Context) error {
	attempt := n.lease.attempts.DoChan("", func() (any, error) {
		if n.lease.life.Err() != nil {
			return nil, room.ErrClosed
		}
		before := n.Name()
		renewed, err := n.lease.refresh(n.lease.life)
		if renewed {
			n.logs.renamed.Happened(nil, "was", before, "node", n.Name())
			if n.opts.Renamed != nil {
				n.opts.Renamed()
			}
			n.watchers.Rejoin()
		}
		return nil, err
	})
	select {
	case result := <-attempt:
		return result.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// IsDead reports whether a node's lease is over. It returns false if Redis does not answer.
func (n *Node) IsDead(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Settings.LockTTL)
	defer cancel()
	alive, err := n.store.Client.Exists(ctx, n.store.Lease(node)).Result()
	return err == nil && alive == 0
}

// Living returns the leases of the nodes that seem to live, by name, or fails with [room.ErrUnavailable].
func (n *Node) Living(ctx context.Context) (map[string]Lease, error) {
	living := make(map[string]Lease)
	for _, list := range Lists(n.store.Space) {
		leases, err := n.lease.leasesOf(ctx, list)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", room.ErrUnavailable, err)
		}
		for name, lease := range leases {
			if l, ok := ParseLease(lease); ok {
				living[name] = l
			}
		}
	}
	return living, nil
}
