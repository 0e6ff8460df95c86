package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/room/coordinator"
)

const (
	fillTimeout  = 5 * time.Minute
	checkTimeout = time.Minute
)

// tryRooms fills the rooms, makes the clients act, and checks the lists.
func (c *cell) tryRooms(ctx context.Context) (*Result, error) {
	rooms := c.load.names(c.prefix)
	if c.load.delay > 0 {
		end, err := c.openNetwork(ctx)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	nodes, closeAll, err := openAll(c, func(t target) (node, error) { return c.who.open(ctx, t) },
		func(n node) { n.close() })
	defer closeAll()
	if err != nil {
		return nil, err
	}
	if c.load.members > 0 {
		filler := nodes[0]
		if c.who.filler != nil {
			if filler, err = c.who.filler(ctx, c.target("filler")); err != nil {
				return nil, fmt.Errorf("open: %w", err)
			}
			// Not before the end, because a node that is gone may lose its members.
			defer filler.close()
		}
		if err := c.fill(ctx, filler, rooms); err != nil {
			return nil, fmt.Errorf("fill the rooms: %w", err)
		}
	}
	places := newPlaces(c.load, rooms)
	players := make([]*player, len(places))
	for i := range players {
		players[i] = &player{places[i], nodes[c.load.node(i)]}
	}
	runtime.GC() // earlier garbage does not count
	m, err := drive(ctx, c.driver(), players)
	if err != nil {
		return nil, err
	}
	v, err := c.check(ctx, rooms, places)
	return newResult(m, v), err
}

// openNetwork puts a network between the nodes and Redis, until end is called.
func (c *cell) openNetwork(ctx context.Context) (end func(), err error) {
	if c.redis.IsEmbedded() {
		return nil, errors.New("there is no network to the embedded Redis")
	}
	network, err := openChild(ctx, task{Server: networkName, Redis: c.redis.URL, Delay: c.load.delay})
	if err != nil {
		return nil, err
	}
	c.network = network.url
	return func() { _ = network.Close() }, nil
}

// openAll opens the workload's nodes, and returns a function that closes them.
func openAll[N any](c *cell, open func(target) (N, error), end func(N)) (nodes []N, closeAll func(), err error) {
	closeAll = func() {
		for _, n := range nodes {
			end(n)
		}
	}
	for i := range c.load.nodes {
		n, err := open(c.target(strconv.Itoa(i)))
		if err != nil {
			return nodes, closeAll, fmt.Errorf("open: %w", err)
		}
		nodes = append(nodes, n)
	}
	return nodes, closeAll, nil
}

func (c *cell) target(name string) target {
	return target{redis: c.redis, name: c.prefix + "node-" + name, connections: c.load.connections(),
		network: c.network}
}

// fill puts the members into all rooms. If they join, as many act at a time as share a hold.
func (c *cell) fill(ctx context.Context, n node, rooms []string) error {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	residents := c.load.residents()
	group, ctx := errgroup.WithContext(ctx)
	for _, room := range rooms {
		if c.who.fill != nil {
			group.Go(func() error { return c.who.fill(ctx, c.rdb, room, residents) })
			continue
		}
		group.Go(func() error {
			joining, ctx := errgroup.WithContext(ctx)
			joining.SetLimit(coordinator.DefaultMaxBatch)
			for _, user := range residents {
				joining.Go(func() error { return n.join(ctx, room, user) })
			}
			return joining.Wait()
		})
	}
	return group.Wait()
}
