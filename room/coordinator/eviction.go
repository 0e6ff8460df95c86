package coordinator

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"roomd/lockmgr/redisconn"
	"roomd/room"
)

var (
	//go:embed lua/lease_over.lua
	leaseOverLua string

	leaseOverScript = redis.NewScript(leaseOverLua)
)

// maxEvictions is from how many rooms a dead node's members are removed at the same time:
// rooms that hang must not hold up the others.
const maxEvictions = 128

// eviction removes the members of nodes that have died.
type eviction struct {
	opts         Options
	lifetime     lifetime
	store        *store
	episodes     *episodes
	registration *registration
	run          func(ctx context.Context, id string, a room.Action) (room.Result, error)

	lists []*sightings // used only by once
}

func newEviction(store *store, opts Options, lifetime lifetime, registration *registration, episodes *episodes) *eviction {
	e := &eviction{opts: opts, lifetime: lifetime, store: store, registration: registration, episodes: episodes}
	peers := &peers{log: opts.Log, mine: opts.shared()}
	for _, list := range nodeLists(store.cluster) {
		e.lists = append(e.lists, &sightings{list: list, seen: make(map[string]sighting), peers: peers})
	}
	return e
}

// loop removes the members of nodes that have died. They are removed exactly once, even if
// several nodes notice, or one dies while doing it: removing is an action under the room's
// lock, and does nothing for a member who is not there any more.
func (e *eviction) loop() {
	for e.lifetime.open.Err() == nil {
		next, err := e.once(e.lifetime.open)
		if err != nil && e.lifetime.open.Err() == nil {
			e.episodes.eviction.Happened(err)
		}
		_ = redisconn.Pause(e.lifetime.open, time.Until(next))
	}
}

// once looks once, and returns when to look again.
func (e *eviction) once(ctx context.Context) (next time.Time, err error) {
	due, failed := make([]time.Time, len(e.lists)), make([]error, len(e.lists))
	var wg sync.WaitGroup
	for i, v := range e.lists {
		wg.Go(func() { due[i], failed[i] = e.checkList(ctx, v) })
	}
	wg.Wait()
	next = time.Now().Add(e.opts.NodeTTL / 2)
	for _, t := range due {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next, errors.Join(failed...)
}

// checkList removes the members of the dead nodes in one list. It returns when the
// next ones are due, if that is known.
func (e *eviction) checkList(ctx context.Context, v *sightings) (next time.Time, err error) {
	leases, err := e.leasesOf(ctx, v.list)
	if err != nil {
		return next, fmt.Errorf("%s: %w", v.list, err)
	}
	maps.DeleteFunc(v.seen, func(node string, _ sighting) bool { _, listed := leases[node]; return !listed })
	now := time.Now()
	var failed []error
	for node, lease := range leases {
		due := v.saw(node, lease, now, e.opts)
		switch {
		case !due.After(now):
			if err := e.evictNode(ctx, v.list, node, v.seen[node]); err != nil {
				failed = append(failed, fmt.Errorf("node %s %s: %w", node, v.seen[node].address, err))
			}
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return next, errors.Join(failed...)
}

// leasesOf returns the nodes in a list, each with its lease, empty if there is none.
func (e *eviction) leasesOf(ctx context.Context, list string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.NodeTTL)
	defer cancel()
	nodes, err := e.store.client.ZRange(ctx, list, 0, -1).Result()
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	keys := make([]string, len(nodes))
	for i, node := range nodes {
		keys[i] = nodeKey(node)
	}
	values, err := e.store.client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, err
	}
	leases := make(map[string]string, len(nodes))
	for i, node := range nodes {
		leases[node], _ = values[i].(string)
	}
	return leases, nil
}

// evictNode removes the members of a node that has not prolonged its lease. If that has
// succeeded in all rooms it takes the node off the list.
func (e *eviction) evictNode(ctx context.Context, list, node string, seen sighting) error {
	rdb := e.store.client
	asking, cancel := context.WithTimeout(ctx, e.opts.NodeTTL)
	defer cancel()
	if over, err := redisconn.Run(asking, rdb, leaseOverScript, []string{nodeKey(node)}, seen.lease).Int(); err != nil || over == 0 {
		return err
	}
	rooms, err := rdb.SMembers(asking, nodeRoomsKey(node)).Result()
	if err != nil {
		return err
	}
	address, stopped := rdb.Get(asking, nodeStoppedKey(node)).Result()
	if stopped != nil && stopped != redis.Nil {
		return stopped
	}
	start, who := time.Now(), newIdentity(node)
	var members, failed atomic.Int64
	var work errgroup.Group
	work.SetLimit(maxEvictions)
	for _, id := range rooms {
		work.Go(func() error {
			n, err := e.evictFrom(ctx, id, who)
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
	forgetting, cancel := context.WithTimeout(ctx, e.opts.NodeTTL)
	defer cancel()
	first, err := rdb.ZRem(forgetting, list, node).Result()
	if err != nil {
		return err
	}
	_ = rdb.Del(forgetting, nodeStoppedKey(node)).Err() // else it expires
	level, message := slog.LevelInfo, "a node has died; its members were removed"
	if stopped == nil {
		message = "a node has stopped; its members did not come back and were removed"
	}
	if members.Load() == 0 && (stopped == nil || first == 0) { // first: no other node was faster
		level = slog.LevelDebug
	}
	e.opts.Log.Log(ctx, level, message, "node", node, "address", cmp.Or(seen.address, address),
		"rooms", len(rooms), "members", members.Load(), "took", time.Since(start))
	return nil
}

// evictFrom removes the members of a node from a room, and the records of it there. Where
// it has no members nothing is run: that would leave records of this node.
func (e *eviction) evictFrom(ctx context.Context, id string, who *identity) (members int, err error) {
	seen, err := e.registration.forget(ctx, id, who)
	if err == nil && seen.member {
		var result room.Result
		if result, err = e.run(ctx, id, room.Evict(who.node)); err == nil {
			members = result.Seat // of an eviction: how many were removed
			if evicted := e.opts.Trace.Evicted; evicted != nil {
				evicted(members)
			}
			seen, err = e.registration.forget(ctx, id, who)
		}
	}
	switch {
	case err != nil:
		return members, err
	case seen.member:
		return members, errors.New("members have come meanwhile")
	}
	return members, e.registration.note(ctx, who, noteRemove, id)
}
