package room

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/announce.lua
	announceLua string
	//go:embed lua/gone.lua
	goneLua string

	announceScript = redis.NewScript(announceLua)
	goneScript     = redis.NewScript(goneLua)
)

// nodesKey is a sorted set of the nodes that may have members, by the time until
// which each is to be believed. It saves looking for them among all keys.
const nodesKey = "Nodes"

func nodeKey(node string) string      { return "Node:" + node }
func nodeRoomsKey(node string) string { return "Node:" + node + ":Rooms" }

// identity is a name under which a node writes.
type identity struct {
	node string
	by   string // the field of a room's Meta that remembers the node's last commit
}

func newIdentity(node string) *identity { return &identity{node, "by:" + node} }

// lease keeps the node's name its own. It is a key in Redis with a TTL that the node
// refreshes (C. Gray, D. Cheriton, "Leases: an efficient fault-tolerant mechanism for
// distributed file cache consistency", 1989). When it is gone, other nodes remove
// the members of that name. So a node commits nothing under a name whose time is
// over by its own clock, and takes a new one when the key was not there any more:
// because it was stalled, or because Redis has lost its data.
type lease struct {
	client redis.UniversalClient
	ttl    time.Duration

	mu     sync.Mutex
	who    *identity // guarded by mu
	until  time.Time // guarded by mu: by our clock, from before the request was sent; zero before the first
	asking sync.Mutex
}

// holder returns the node's name, and whether it may be written under.
func (l *lease) holder() (who *identity, valid bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.who, time.Now().Before(l.until)
}

// refresh prolongs the lease, or begins one under a new name if it was lost. renewed
// says that the name has changed.
func (l *lease) refresh(ctx context.Context) (renewed bool, err error) {
	l.mu.Lock()
	before := l.until
	l.mu.Unlock()
	l.asking.Lock()
	defer l.asking.Unlock()
	l.mu.Lock()
	who, first, since := l.who, l.until.IsZero(), l.until
	l.mu.Unlock()
	if since.After(before) {
		return false, nil // somebody else did while we waited
	}
	sent := time.Now()
	if !first {
		kept, err := l.client.SetXX(ctx, nodeKey(who.node), "1", l.ttl).Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return false, err
		case kept:
			err := l.announce(ctx, who.node, l.ttl)
			l.set(who, sent)
			return false, err
		}
		who = newIdentity(newName())
	}
	// Found among the nodes before it is believed: it is never alive and unknown.
	if err := l.announce(ctx, who.node, l.ttl); err != nil {
		return false, err
	}
	if err := l.client.Set(ctx, nodeKey(who.node), "1", l.ttl).Err(); err != nil {
		return false, err
	}
	l.set(who, sent)
	return !first, nil
}

func (l *lease) set(who *identity, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.who, l.until = who, sent.Add(l.ttl)
}

func (l *lease) announce(ctx context.Context, node string, left time.Duration) error {
	return announceScript.Run(ctx, l.client, []string{nodesKey}, node, left.Milliseconds()).Err()
}

// end gives the lease back: the grace of its members begins. A node without members
// leaves nothing behind.
func (l *lease) end(ctx context.Context) error {
	l.mu.Lock()
	who, first := l.who, l.until.IsZero()
	l.until = time.Now()
	l.mu.Unlock()
	if first {
		return nil
	}
	rooms, err := l.client.SCard(ctx, nodeRoomsKey(who.node)).Result()
	if err != nil {
		return err
	}
	if err = l.client.Del(ctx, nodeKey(who.node)).Err(); err != nil {
		return err
	}
	if rooms == 0 {
		return l.client.ZRem(ctx, nodesKey, who.node).Err()
	}
	return l.announce(ctx, who.node, 0)
}

// Start announces the node: from now on it is known to others, and removes the
// members of those that have died. Without it that begins with the first action.
// It fails with [ErrUnavailable] or [ErrClosed].
func (c *Coordinator) Start(ctx context.Context) error {
	if _, valid := c.lease.holder(); !valid {
		if err := c.believe(ctx); err != nil {
			return fmt.Errorf("announce the node: %w: %w", ErrUnavailable, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.watching:
		return nil
	case c.closed:
		return ErrClosed
	}
	c.watching = true
	c.guards.Go(c.keepLease)
	c.guards.Go(c.lookForGhosts)
	return nil
}

// keepLease prolongs the node's lease as long as the coordinator is open.
func (c *Coordinator) keepLease() {
	for pause(c.open, c.opts.NodeTTL/3); c.open.Err() == nil; pause(c.open, c.opts.NodeTTL/3) {
		ctx, cancel := context.WithTimeout(c.open, c.opts.NodeTTL)
		err := c.believe(ctx)
		cancel()
		if err != nil && c.open.Err() == nil {
			c.opts.Log.Warn().Err(err).Msg("the node's lease could not be prolonged")
		}
	}
}

// believe prolongs the lease. If it was lost, everybody who is live here has to join
// again, under the node's new name.
func (c *Coordinator) believe(ctx context.Context) error {
	before, _ := c.lease.holder()
	renewed, err := c.lease.refresh(ctx)
	if renewed {
		now, _ := c.lease.holder()
		c.opts.Log.Warn().Str("was", before.node).Str("node", now.node).Msg("the node's lease was lost; its sessions join again under a new name")
		c.feeds.rejoin()
	}
	return err
}
