package cluster

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
)

var (
	//go:embed lua/lease_over.lua
	leaseOverLua string

	// OverScript ends a lease, unless the lease has changed since the caller saw it.
	OverScript = redis.NewScript(leaseOverLua)

	//go:embed lua/lease_unlist.lua
	leaseUnlistLua string

	// UnlistScript removes a dead node from its list of nodes, unless the node has a lease or recorded rooms.
	UnlistScript = redis.NewScript(leaseUnlistLua)
)

// maxEvictions limits the rooms of one dead node that are worked on at a time. It is high, so that rooms that hang do
// not delay the others.
const maxEvictions = 128

// evictor removes the members of nodes that died or stopped, and of this node's former names. Only its loop uses it.
type evictor struct {
	node  *Node
	lists []*sightings // by list of nodes
}

func newEvictor(n *Node) *evictor {
	e, met := &evictor{node: n}, &peers{log: n.opts.Log, mine: n.opts.Settings}
	for _, list := range Lists(n.store.Space) {
		e.lists = append(e.lists, &sightings{list: list, seen: make(map[string]*sighting), kept: n.KeptNames,
			peers: met})
	}
	return e
}

// loop removes the members of dead nodes. They are removed exactly once, even if several nodes notice, or one
// dies while doing it: the removal is an action under the room's lock, and ignores members who have left.
func (e *evictor) loop() {
	for e.node.open.Err() == nil {
		next, err := e.look(e.node.open)
		if err != nil && e.node.open.Err() == nil {
			e.node.logs.eviction.Happened(err)
		}
		_ = pause.For(e.node.open, time.Until(next))
	}
}

// look writes the records that Node.List collected, checks all lists, and returns when to look again. Without a valid
// lease it judges nobody: perhaps the other nodes cannot prolong their leases either.
func (e *evictor) look(ctx context.Context) (next time.Time, err error) {
	if _, valid := e.node.lease.holder(); !valid {
		for _, v := range e.lists {
			v.looked = time.Time{}
		}
		return time.Now().Add(e.node.opts.Settings.NodeTTL / 2), nil
	}
	start, due, failed := time.Now(), make([]time.Time, len(e.lists)), make([]error, len(e.lists), len(e.lists)+1)
	failed = append(failed, e.node.listUnlisted(ctx))
	var wg sync.WaitGroup
	for i, v := range e.lists {
		wg.Go(func() { due[i], failed[i] = e.checkList(ctx, v) })
	}
	wg.Wait()
	for _, v := range e.lists {
		if !v.looked.Before(start) { // this list was read, even if another one or a room was slow
			v.looked = time.Now()
		}
	}
	next = time.Now().Add(e.node.opts.Settings.NodeTTL / 2)
	for _, t := range due {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next, errors.Join(failed...)
}

// checkList handles the dead nodes in one list. next is when another node in it is due, zero if unknown.
func (e *evictor) checkList(ctx context.Context, v *sightings) (next time.Time, err error) {
	leases, err := e.node.lease.leasesOf(ctx, v.list)
	if err != nil {
		return next, fmt.Errorf("%s: %w", v.list, err)
	}
	now := time.Now()
	v.look(leases, now, e.node.opts.Settings)
	var failed []error
	for node, lease := range leases {
		s := v.saw(node, lease, now, e.node.opts.Settings)
		if !s.dead.After(now) || !s.left().After(now) {
			if err := e.evictNode(ctx, node, s); err != nil {
				failed = append(failed, fmt.Errorf("node %s %s: %w", node, s.address, err))
			}
		}
		for _, due := range s.due() {
			if due.After(now) && (next.IsZero() || due.Before(next)) {
				next = due
			}
		}
	}
	return next, errors.Join(failed...)
}

// leasesOf returns the leases of the nodes in a list, by name; "" for a node without a lease.
func (l *lease) leasesOf(ctx context.Context, list string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	nodes, err := l.store.Client.ZRange(ctx, list, 0, -1).Result()
	if err != nil || len(nodes) == 0 {
		return nil, l.store.Explain(ctx, err, list)
	}
	keys := make([]string, len(nodes))
	for i, node := range nodes {
		keys[i] = l.store.Lease(node)
	}
	values, err := l.store.Client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, err
	}
	leases := make(map[string]string, len(nodes))
	for i, node := range nodes {
		leases[node], _ = values[i].(string)
	}
	return leases, nil
}

// evictNode shows the members of a dead node as away, room by room, and removes them after their grace. Once no room
// has any of them it takes the node off the list. Members of a node that stopped are not shown as away: they
// are moving to other nodes.
//
// Several nodes may do this, and die while doing it; each member is still shown away once and removed once. These two
// steps are actions under the room's lock. They ignore members who are away already, or came back through another node.
func (e *evictor) evictNode(ctx context.Context, node string, seen *sighting) error {
	rdb := e.node.store.Client
	asking, cancel := context.WithTimeout(ctx, e.node.opts.Settings.NodeTTL)
	defer cancel()
	address, err := rdb.Get(asking, e.node.store.Stopped(node)).Result()
	if err != nil && err != redis.Nil {
		return err
	}
	stopped := err == nil
	unseen, due := seen.grace == 0, seen.dead // unseen: members are removed without being shown as away
	if stopped {
		unseen, due = true, seen.left()
	}
	if due.After(time.Now()) {
		return nil
	}
	over, err := e.node.store.RunPlain(asking, OverScript, []string{e.node.store.Lease(node), e.node.store.Over(node)},
		seen.lease, overTTL.Milliseconds()).Int()
	if err != nil || over != 1 { // the node has prolonged its lease
		return err
	}
	if seen.away == nil {
		if died := e.node.opts.Died; died != nil && !stopped {
			died(node)
		}
		seen.away = new(sync.Map)
	}
	rooms, err := rdb.SMembers(asking, e.node.store.NodeRooms(node)).Result()
	if err != nil {
		return err
	}
	start, who := time.Now(), &Identity{Node: node}
	var waiting atomic.Bool
	members, err := inEach(rooms, func(id string) (int, error) {
		since, away := seen.away.Load(id)
		if !unseen && !away {
			waiting.Store(true)
			err := e.strayFrom(ctx, id, node, seen.grace)
			if err == nil {
				seen.away.Store(id, time.Now())
			}
			return 0, err
		}
		if !unseen {
			left := time.Until(since.(time.Time).Add(seen.grace))
			if left > e.node.opts.Settings.NodeTTL/2 {
				waiting.Store(true)
				return 0, nil
			}
			if err := pause.For(ctx, left); err != nil { // wait now: a slow room may delay the next look
				return 0, err
			}
		}
		return e.evictFrom(ctx, id, who, seen.grace, stopped)
	})
	if err != nil || waiting.Load() {
		return err
	}
	forgetting, cancel := context.WithTimeout(ctx, e.node.opts.Settings.NodeTTL)
	defer cancel()
	unlisted, err := e.node.store.RunPlain(forgetting, UnlistScript,
		append(e.node.lease.keysOf(who), e.node.store.Stopped(node)),
		node).Int()
	if err != nil {
		return err
	}
	level, message := slog.LevelInfo, "a node has died; its members were removed"
	switch {
	case seen.own:
		message = "this node had lost its lease; its members under the name from before did not come back and were removed"
	case stopped:
		message = "a node has stopped; its members did not come back and were removed"
	}
	if members == 0 && (seen.own || stopped || unlisted != 1) { // nobody was left, or another node removed them
		level = slog.LevelDebug
	}
	e.node.opts.Log.Log(ctx, level, message, "node", node, "address", cmp.Or(seen.address, address),
		"rooms", len(rooms), "members", members, "took", time.Since(start))
	return nil
}

// inEach calls do for each room of a dead node, several at a time, and returns the sum of members.
func inEach(rooms []string, do func(id string) (members int, err error)) (int, error) {
	var members, failed atomic.Int64
	var work errgroup.Group
	work.SetLimit(maxEvictions)
	for _, id := range rooms {
		work.Go(func() error {
			n, err := do(id)
			members.Add(int64(n))
			if err != nil {
				failed.Add(1)
				return fmt.Errorf("room %s: %w", id, err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return int(members.Load()), fmt.Errorf("%d of %d rooms, the first of them %w", failed.Load(), len(rooms), err)
	}
	return int(members.Load()), nil
}

// evictFrom removes the members of who.Node from a room, by:<node> from its Meta, and the room from Node:<node>:Rooms.
// Without members it runs no action, because that would leave records of this node. grace is the node's; where the
// settings have a longer one, the members stay, and belong to no node. stopped: the node has stopped, and did not die.
func (e *evictor) evictFrom(ctx context.Context, id string, who *Identity, grace time.Duration, stopped bool) (
	members int, err error,
) {
	stays, err := e.node.unregister(ctx, id, who.Node)
	if err == nil && stays {
		var result room.Result
		if result, err = e.node.actions.Run(ctx, id, room.Upkeep{Evict: who.Node, Grace: grace.Milliseconds()}); err == nil {
			members = result.Seat // of an eviction: how many were removed
			if evicted := e.node.opts.Evicted; evicted != nil {
				evicted(members, stopped)
			}
			stays, err = e.node.unregister(ctx, id, who.Node)
		}
	}
	switch {
	case err != nil:
		return members, err
	case stays:
		return members, errors.New("members have come meanwhile")
	}
	return members, e.node.record(who, recordRemove, id)
}

// strayFrom shows a node's members in a room as away. If there are none it runs no action, because that would leave
// records of this node.
func (e *evictor) strayFrom(ctx context.Context, id, node string, grace time.Duration) error {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := e.node.store.Load(reading, id)
	if err != nil {
		return err
	}
	for _, m := range r.Members() {
		if m.Node == node && !m.Detached() {
			_, err := e.node.actions.Run(ctx, id, room.Upkeep{Stray: node, Grace: grace.Milliseconds()})
			return err
		}
	}
	return nil
}
