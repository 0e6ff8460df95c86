package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"roomd/loadtest/redisserver"
)

const (
	fillTimeout  = 5 * time.Minute
	checkTimeout = time.Minute
)

// cell is one contender in one workload.
type cell struct {
	redis    *redisserver.Redis
	rdb      *redis.Client // outside the measurement
	meter    *meter
	prefix   string // of its rooms, locks and nodes; unique
	who      contender
	load     workload
	duration time.Duration
}

// measure lets the clients act, and checks what came of it. The result of a contender that cannot be
// measured says why.
func (c *cell) measure(ctx context.Context) *Result {
	try := c.tryRooms
	if c.load.locks {
		try = c.tryLocks
	}
	r, err := try(ctx)
	if err != nil {
		r = newResult(&measurement{}, Violations{})
		r.Failure = err.Error()
	}
	return r
}

// tryRooms fills the rooms, lets the clients act, and checks the lists.
func (c *cell) tryRooms(ctx context.Context) (*Result, error) {
	rooms := c.load.names(c.prefix)
	nodes, closeAll, err := openAll(c, func(t target) (node, error) { return c.who.open(ctx, t) })
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
			// At the end only: a node that is gone may lose its members.
			defer filler.close()
		}
		if err := c.fill(ctx, filler, rooms); err != nil {
			return nil, fmt.Errorf("fill the rooms: %w", err)
		}
	}
	players := newPlayers(c.load, rooms, nodes)
	runtime.GC() // garbage of before does not count
	m, err := drive(ctx, players, c.duration, c.meter.read)
	if err != nil {
		return nil, err
	}
	v, err := c.check(ctx, rosters(c.load, rooms, players))
	if err != nil {
		return nil, fmt.Errorf("read the lists: %w", err)
	}
	return newResult(m, v), nil
}

// openAll opens the workload's nodes, and returns a function that closes those that it opened.
func openAll[N interface{ close() }](c *cell, open func(target) (N, error)) (nodes []N, closeAll func(), err error) {
	closeAll = func() {
		for _, n := range nodes {
			n.close()
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
	return target{redis: c.redis, name: c.prefix + "node-" + name, connections: c.load.connections(), delay: c.load.delay}
}

func (c *cell) fill(ctx context.Context, n node, rooms []string) error {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	residents := c.load.residents()
	group, ctx := errgroup.WithContext(ctx)
	for _, room := range rooms {
		group.Go(func() error { return n.fill(ctx, room, residents) })
	}
	return group.Wait()
}

// check compares every room's list with its roster.
func (c *cell) check(ctx context.Context, rosters []*roster) (v Violations, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for _, r := range rosters {
		list, err := c.who.members(ctx, c.rdb, r.room)
		if err != nil {
			return v, err
		}
		v.check(r, list)
	}
	return v, nil
}
