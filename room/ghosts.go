package room

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

var (
	//go:embed lua/gone.lua
	goneLua string
	//go:embed lua/lease_list.lua
	leaseListLua string

	goneScript = redis.NewScript(goneLua)
)

// maxEvictions is how many rooms a dead node's members are removed from at a time:
// rooms that hang must not hold up the others.
const maxEvictions = 128

// lookForGhosts removes the members of nodes that have died. Any number of nodes may
// do so at once, and any of them may die over it: a member is removed by an action
// like any other, under the room's lock, and only if it is still there.
func (c *Coordinator) lookForGhosts() {
	for ; c.open.Err() == nil; pause(c.open, c.opts.NodeTTL/2) {
		if err := c.removeGhosts(c.open); err != nil && c.open.Err() == nil {
			c.troubles.ghosts.Happened(err)
		}
	}
}

func (c *Coordinator) removeGhosts(ctx context.Context) error {
	lists := nodeLists(c.store.cluster)
	failed := make([]error, len(lists))
	var wg sync.WaitGroup
	for i, list := range lists {
		wg.Go(func() { failed[i] = c.removeListed(ctx, list) })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// removeListed removes the members of the dead nodes in one list.
func (c *Coordinator) removeListed(ctx context.Context, list string) error {
	asking, cancel := context.WithTimeout(ctx, c.opts.NodeTTL)
	defer cancel()
	nodes, err := goneScript.Run(asking, c.store.client, []string{list}, c.opts.Grace.Milliseconds()).StringSlice()
	if err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	var failed []error
	for _, node := range nodes {
		if err := c.removeNode(ctx, list, node); err != nil {
			failed = append(failed, fmt.Errorf("node %s: %w", node, err))
		}
	}
	return errors.Join(failed...)
}

// removeNode removes the members of a node, and then what is known of it, if that has
// succeeded in all rooms.
func (c *Coordinator) removeNode(ctx context.Context, list, node string) error {
	rdb := c.store.client
	asking, cancel := context.WithTimeout(ctx, c.opts.NodeTTL)
	defer cancel()
	if alive, err := rdb.Exists(asking, nodeKey(node)).Result(); err != nil || alive > 0 {
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
	c.opts.Log.Info().Str("node", node).Int("rooms", len(rooms)).Int64("members", members.Load()).
		Dur("took", time.Since(start)).Msg("a node has died; its members were removed")
	return nil
}

// removeFrom removes the members of a node from a room, and what is known of it there.
func (c *Coordinator) removeFrom(ctx context.Context, id string, who *identity) (members int, err error) {
	if members, err = c.evict(ctx, id, who.node); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.LockTTL)
	defer cancel()
	return members, c.unlist(ctx, id, who)
}

// evict returns how many members of the node this call has removed.
func (c *Coordinator) evict(ctx context.Context, id, node string) (n int, err error) {
	if CheckID(id) != nil {
		return 0, nil // not a room of ours
	}
	r, err := c.run(ctx, id, evict(node))
	return r.Seat, err
}

// list notes, before a room is written to, that this node may have members there. On
// Cluster that may be on a master that is away, or has too few replicas; then the node
// does not wait until its lease is over, and notes it at its next home.
func (c *Coordinator) list(ctx context.Context, d *desk, who *identity) error {
	for d.listed != who {
		err := c.addRoom(ctx, who, d.id)
		if err == nil {
			d.listed = who
			return nil
		}
		if !c.store.cluster || ctx.Err() != nil {
			return err
		}
		c.lease.leave(who)
		for c.lease.leaving(who) {
			if err := c.believe(ctx); ctx.Err() != nil || errors.Is(err, ErrClosed) {
				return err
			}
		}
		next, valid := c.lease.holder()
		if next == who || !valid {
			return err
		}
		who = next
	}
	return nil
}

// addRoom puts a room into the set of those that the node may have members in.
func (c *Coordinator) addRoom(ctx context.Context, who *identity, id string) error {
	defer who.rooms.add(id) // also if it failed: it may have been carried out
	if c.store.cluster {
		_, until := c.lease.held()
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	rooms := nodeRoomsKey(who.node)
	if c.store.acksNodes() {
		_, err := c.store.runAcked(ctx, leaseListLua, []string{rooms}, id)
		return err
	}
	return c.locks.Process(ctx, rooms, redis.NewIntCmd(ctx, "sadd", rooms, id))
}

// unlist forgets a node in a room where it has no members.
func (c *Coordinator) unlist(ctx context.Context, id string, who *identity) error {
	meta, rooms := c.store.keysOf(id).meta, nodeRoomsKey(who.node)
	if err := c.locks.Process(ctx, meta, redis.NewIntCmd(ctx, "hdel", meta, who.by)); err != nil {
		return err
	}
	listed := who.rooms.remove(id) // or it would be put in again
	err := c.locks.Process(ctx, rooms, redis.NewIntCmd(ctx, "srem", rooms, id))
	if err != nil && listed {
		who.rooms.add(id) // it may still be there
	}
	return err
}

// retire is the last thing that is done at a desk where nothing has happened for a
// while: what the node left in Redis there goes, unless it still has members.
func (c *Coordinator) retire(d *desk) {
	who := d.listed
	if who == nil {
		if who, _ = c.lease.holder(); !who.rooms.has(d.id) {
			return
		}
	}
	ctx, cancel := context.WithTimeout(c.life, c.opts.LockTTL)
	defer cancel()
	r, err := c.store.load(ctx, d.id) // the copy may not have heard of what others did
	if err != nil {
		return
	}
	for _, m := range r.members {
		if m.Node == who.node {
			return
		}
	}
	if c.unlist(ctx, d.id, who) == nil {
		d.listed = nil
	}
}
