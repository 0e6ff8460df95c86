package room

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// lookForGhosts removes the members of nodes that have died. Any number of nodes may
// do so at once, and any of them may die over it: a member is removed by an action
// like any other, under the room's lock, and only if it is still there.
func (c *Coordinator) lookForGhosts() {
	for ; c.open.Err() == nil; pause(c.open, c.opts.NodeTTL/2) {
		if err := c.removeGhosts(c.open); err != nil && c.open.Err() == nil {
			c.opts.Log.Warn().Err(err).Msg("members of dead nodes could not be removed, trying again")
		}
	}
}

func (c *Coordinator) removeGhosts(ctx context.Context) error {
	nodes, err := goneScript.Run(ctx, c.store.client, []string{nodesKey}, c.opts.Grace.Milliseconds()).StringSlice()
	if err != nil {
		return err
	}
	var failed []error
	for _, node := range nodes {
		failed = append(failed, c.removeNode(ctx, node))
	}
	return errors.Join(failed...)
}

// removeNode removes the members of a node, and then what is known of it.
func (c *Coordinator) removeNode(ctx context.Context, node string) error {
	rdb := c.store.client
	if alive, err := rdb.Exists(ctx, nodeKey(node)).Result(); err != nil || alive > 0 {
		return err
	}
	rooms, err := rdb.SMembers(ctx, nodeRoomsKey(node)).Result()
	if err != nil {
		return err
	}
	start, members := time.Now(), 0
	for _, id := range rooms {
		n, err := c.evict(ctx, id, node)
		if err != nil {
			return fmt.Errorf("room %s: %w", id, err)
		}
		members += n
		if err := c.unlist(ctx, id, newIdentity(node)); err != nil {
			return err
		}
	}
	if err := rdb.ZRem(ctx, nodesKey, node).Err(); err != nil {
		return err
	}
	c.opts.Log.Info().Str("node", node).Int("rooms", len(rooms)).Int("members", members).
		Dur("took", time.Since(start)).Msg("a node has died; its members were removed")
	return nil
}

// evict returns how many members of the node this call has removed.
func (c *Coordinator) evict(ctx context.Context, id, node string) (n int, err error) {
	if CheckID(id) != nil {
		return 0, nil // not a room of ours
	}
	r, err := c.run(ctx, id, evict(node))
	return r.Seat, err
}

// list notes, before a room is written to, that this node may have members there.
func (c *Coordinator) list(ctx context.Context, d *desk, who *identity) error {
	if d.listed == who {
		return nil
	}
	rooms := nodeRoomsKey(who.node)
	if err := c.locks.Process(ctx, rooms, redis.NewIntCmd(ctx, "sadd", rooms, d.id)); err != nil {
		return err
	}
	d.listed = who
	return nil
}

// unlist forgets a node in a room where it has no members.
func (c *Coordinator) unlist(ctx context.Context, id string, who *identity) error {
	meta, rooms := c.store.keysOf(id).meta, nodeRoomsKey(who.node)
	if err := c.locks.Process(ctx, meta, redis.NewIntCmd(ctx, "hdel", meta, who.by)); err != nil {
		return err
	}
	return c.locks.Process(ctx, rooms, redis.NewIntCmd(ctx, "srem", rooms, id))
}

// retire is the last thing that is done at a desk where nothing has happened for a
// while: what the node left in Redis there goes, unless it still has members.
func (c *Coordinator) retire(d *desk) {
	who := d.listed
	if who == nil {
		return
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
