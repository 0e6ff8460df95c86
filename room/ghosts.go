package room

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

var (
	//go:embed lua/lease_over.lua
	leaseOverLua string

	leaseOverScript = redis.NewScript(leaseOverLua)
)

// maxEvictions is how many rooms a dead node's members are removed from at a time:
// rooms that hang must not hold up the others.
const maxEvictions = 128

// vigil is what this node has seen of the leases in one list. It goes by this node's own
// clock, so that members keep their grace however Redis' clock is set, and also when all
// nodes were away for longer.
type vigil struct {
	list string
	seen map[string]sighting // by node
}

// sighting is a lease as it was seen for the first time.
type sighting struct {
	lease string // empty: there was none
	since time.Time
	ttl   time.Duration // how long it may go unchanged
	grace time.Duration // of the node's members after that
}

// look takes what a node's lease is now, and returns when its members are to go if that
// does not change.
func (v *vigil) look(node, lease string, now time.Time, opts Options) time.Time {
	s, known := v.seen[node]
	if !known || s.lease != lease {
		if !known {
			s.grace = opts.Grace
		}
		s.lease, s.since, s.ttl = lease, now, 0
		var beat, ttl, grace int64
		switch n, _ := fmt.Sscan(lease, &beat, &ttl, &grace); {
		case n == 3:
			s.ttl, s.grace = time.Duration(ttl)*time.Millisecond, time.Duration(grace)*time.Millisecond
		case lease != "":
			s.ttl = opts.NodeTTL
		}
		v.seen[node] = s
	}
	return s.since.Add(s.ttl + s.grace)
}

// lookForGhosts removes the members of nodes that have died. Any number of nodes may
// do so at once, and any of them may die over it: a member is removed by an action
// like any other, under the room's lock, and only if it is still there.
func (c *Coordinator) lookForGhosts() {
	for c.open.Err() == nil {
		next, err := c.removeGhosts(c.open)
		if err != nil && c.open.Err() == nil {
			c.troubles.ghosts.Happened(err)
		}
		pause(c.open, time.Until(next))
	}
}

// removeGhosts looks once, and returns when to look again.
func (c *Coordinator) removeGhosts(ctx context.Context) (next time.Time, err error) {
	due, failed := make([]time.Time, len(c.vigils)), make([]error, len(c.vigils))
	var wg sync.WaitGroup
	for i, v := range c.vigils {
		wg.Go(func() { due[i], failed[i] = c.removeListed(ctx, v) })
	}
	wg.Wait()
	next = time.Now().Add(c.opts.NodeTTL / 2)
	for _, t := range due {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next, errors.Join(failed...)
}

// removeListed removes the members of the dead nodes in one list. It returns when the
// next ones are due, if that is known.
func (c *Coordinator) removeListed(ctx context.Context, v *vigil) (next time.Time, err error) {
	leases, err := c.leasesOf(ctx, v.list)
	if err != nil {
		return next, fmt.Errorf("%s: %w", v.list, err)
	}
	maps.DeleteFunc(v.seen, func(node string, _ sighting) bool { _, listed := leases[node]; return !listed })
	now := time.Now()
	var failed []error
	for node, lease := range leases {
		due := v.look(node, lease, now, c.opts)
		switch {
		case !due.After(now):
			if err := c.removeNode(ctx, v.list, node, lease); err != nil {
				failed = append(failed, fmt.Errorf("node %s: %w", node, err))
			}
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return next, errors.Join(failed...)
}

// leasesOf returns the nodes in a list, each with its lease, empty if there is none.
func (c *Coordinator) leasesOf(ctx context.Context, list string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.NodeTTL)
	defer cancel()
	nodes, err := c.store.client.ZRange(ctx, list, 0, -1).Result()
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	keys := make([]string, len(nodes))
	for i, node := range nodes {
		keys[i] = nodeKey(node)
	}
	values, err := c.store.client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, err
	}
	leases := make(map[string]string, len(nodes))
	for i, node := range nodes {
		leases[node], _ = values[i].(string)
	}
	return leases, nil
}

// removeNode removes the members of a node that has not prolonged its lease, and then
// what is known of it, if that has succeeded in all rooms.
func (c *Coordinator) removeNode(ctx context.Context, list, node, lease string) error {
	rdb := c.store.client
	asking, cancel := context.WithTimeout(ctx, c.opts.NodeTTL)
	defer cancel()
	if over, err := leaseOverScript.Run(asking, rdb, []string{nodeKey(node)}, lease).Int(); err != nil || over == 0 {
		return err
	}
	rooms, err := rdb.SMembers(asking, nodeRoomsKey(node)).Result()
	if err != nil {
		return err
	}
	start, who := time.Now(), newIdentity(node)
	var members, failed atomic.Int64
	var work errgroup.Group
	work.SetLimit(maxEvictions)
	for _, id := range rooms {
		work.Go(func() error {
			n, err := c.removeFrom(ctx, id, who)
			members.Add(int64(n))
			if err != nil {
				failed.Add(1)
				return fmt.Errorf("room %s: %w", id, err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return fmt.Errorf("%d of %d rooms, the first of them %w", failed.Load(), len(rooms), err)
	}
	forgetting, cancel := context.WithTimeout(ctx, c.opts.NodeTTL)
	defer cancel()
	if err := rdb.ZRem(forgetting, list, node).Err(); err != nil {
		return err
	}
	c.opts.Log.Info("a node has died; its members were removed",
		"node", node, "rooms", len(rooms), "members", members.Load(), "took", time.Since(start))
	return nil
}

// removeFrom removes the members of a node from a room, and what is known of it there. A
// room where it has none is not worked at: that would leave traces of this node.
func (c *Coordinator) removeFrom(ctx context.Context, id string, who *identity) (members int, err error) {
	seen, err := c.forget(ctx, id, who)
	if err == nil && seen.member {
		if members, err = c.evict(ctx, id, who.node); err == nil {
			seen, err = c.forget(ctx, id, who)
		}
	}
	switch {
	case err != nil:
		return members, err
	case seen.member:
		return members, errors.New("members have come meanwhile")
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.LockTTL)
	defer cancel()
	return members, c.lease.note(ctx, who, "remove", id)
}

func (c *Coordinator) forget(ctx context.Context, id string, who *identity) (traces, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.LockTTL)
	defer cancel()
	return c.store.forget(ctx, id, who)
}

// evict returns how many members of the node this call has removed.
func (c *Coordinator) evict(ctx context.Context, id, node string) (n int, err error) {
	r, err := c.run(ctx, id, evict(node))
	return r.Seat, err
}
