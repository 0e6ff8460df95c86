package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"roomd/lockmgr/redisconn"
	"roomd/room"
)

// membership is this node's part among the nodes. The lease keeps its name its own, the
// registration records in Redis in which rooms it may have members, and the eviction
// removes the members of nodes that have died.
type membership struct {
	opts     Options
	lifetime lifetime
	store    *store
	episodes *episodes
	more     []func() // loops that run as long as these; set before start
	rejoin   func()   // tells all watchers that the node has a new name

	lease        *lease
	registration *registration
	eviction     *eviction

	pulse pulse          // of keepLease
	loops sync.WaitGroup // keepLease, the loops of registration and eviction, and more

	mu      sync.Mutex
	started bool // guarded by mu: the loops run
	closed  bool // guarded by mu
}

func newMembership(store *store, opts Options, lifetime lifetime, episodes *episodes) *membership {
	m := &membership{opts: opts, lifetime: lifetime, store: store, episodes: episodes}
	m.lease = newLease(store, opts)
	m.registration = &registration{lifetime: lifetime, store: store, lease: m.lease, episodes: episodes, timeout: opts.LockTTL}
	m.eviction = newEviction(store, opts, lifetime, m.registration, episodes)
	return m
}

// start makes sure that the lease is valid and the loops run.
func (m *membership) start(ctx context.Context) error {
	if _, valid := m.lease.holder(); !valid {
		switch err := m.prolong(ctx); {
		case errors.Is(err, room.ErrClosed):
			return room.ErrClosed
		case err != nil:
			return fmt.Errorf("announce the node: %w: %w", room.ErrUnavailable, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.started:
		return nil
	case m.closed:
		return room.ErrClosed
	}
	m.started = true
	m.loops.Go(m.keepLease)
	m.loops.Go(m.eviction.loop)
	m.loops.Go(m.registration.loop)
	for _, loop := range m.more {
		m.loops.Go(loop)
	}
	return nil
}

// refuse makes sure that no loop starts any more.
func (m *membership) refuse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}

// keepLease prolongs the node's lease as long as the coordinator is open.
func (m *membership) keepLease() {
	every, open := m.opts.NodeTTL/3, m.lifetime.open
	defer m.pulse.end()
	m.pulse.beat()
	for redisconn.Pause(open, every) == nil {
		m.pulse.beat()
		if err := m.prolong(open); err != nil && open.Err() == nil {
			m.episodes.lease.Happened(err)
		}
	}
}

// prolong prolongs the lease. If it was lost, everybody who is live here has to join
// again, under the node's new name. When ctx ends the attempt goes on without the
// caller.
func (m *membership) prolong(ctx context.Context) error {
	attempt := m.lease.attempts.DoChan("", func() (any, error) {
		if m.lease.life.Err() != nil {
			return nil, room.ErrClosed
		}
		before, _ := m.lease.holder()
		renewed, err := m.lease.refresh(m.lease.life)
		if renewed {
			now, _ := m.lease.holder()
			m.episodes.renamed.Happened(nil, "was", before.node, "node", now.node)
			call(m.opts.Trace.Renamed)
			m.rejoin()
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

// register records that this node may have members in a room, which it has to do before
// it writes there, and returns the name under which Redis knows that. had is what it has
// returned for the room before, or nil.
//
// On Cluster the record may be on a master that is away, or has too few replicas. Then the
// node does not wait until its lease is over, and moves to another home. A lease that is
// over in Redis is followed by another one.
func (m *membership) register(ctx context.Context, id string, had *identity) (*identity, error) {
	who, _ := m.lease.holder()
	for had != who {
		err := m.registration.add(ctx, who, id)
		switch {
		case err == nil:
			return who, nil
		case ctx.Err() != nil:
			return had, err
		case errors.Is(err, errLeaseOver):
			if err := m.prolong(ctx); err != nil {
				return had, err
			}
		case m.store.cluster:
			m.lease.abandon(who)
			for m.lease.abandoned(who) {
				if err := m.prolong(ctx); ctx.Err() != nil || errors.Is(err, room.ErrClosed) {
					return had, err
				}
			}
		default:
			return had, err
		}
		next, valid := m.lease.holder()
		if next == who || !valid {
			return had, err
		}
		who = next
	}
	return had, nil
}

// isDead reports whether a node's lease is over. If nobody can say, it is not.
func (m *membership) isDead(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, m.opts.LockTTL)
	defer cancel()
	alive, err := m.store.client.Exists(ctx, nodeKey(node)).Result()
	return err == nil && alive == 0
}
