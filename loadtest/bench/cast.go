package bench

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/bench/crew"
)

const (
	defaultConnections = 10_000

	roomSize    = 10 // clients of a room, in the workloads with processes of their own
	swarmSize   = 2500
	minWarm     = 64 // clients who warm a server up
	warmDivisor = 10 // of all

	settleTimeout = 15 * time.Second
	settlePause   = 100 * time.Millisecond
)

// cast is a server and its clients, in processes of their own.
type cast struct {
	server *crew.Server
	swarms []*crew.Swarm
	prefix string // of rooms
}

// openCast starts a server, and as many processes as that many clients need.
func (b *bench) openCast(ctx context.Context, kind, prefix string, clients int) (_ *cast, err error) {
	c := &cast{prefix: prefix}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	c.server, err = crew.StartServer(ctx, crew.ServerConfig{Kind: kind, Redis: b.redis.URL(), Name: prefix + "node"})
	if err != nil {
		return nil, err
	}
	for range max(2, (clients+swarmSize-1)/swarmSize) {
		s, err := crew.StartSwarm(ctx)
		if err != nil {
			return nil, err
		}
		c.swarms = append(c.swarms, s)
	}
	return c, nil
}

func (c *cast) close() {
	var all errgroup.Group
	for _, s := range c.swarms {
		all.Go(func() error { s.Close(); return nil })
	}
	_ = all.Wait()
	if c.server != nil {
		c.server.Close()
	}
}

// connect connects that many clients, evenly from all processes. The first has the number first.
func (c *cast) connect(ctx context.Context, first, clients int, cfg crew.ConnectConfig) (crew.Outcome, error) {
	return c.each(func(i int, s *crew.Swarm) (crew.Outcome, error) {
		from, to := i*clients/len(c.swarms), (i+1)*clients/len(c.swarms)
		cfg := cfg
		cfg.Address, cfg.Room, cfg.RoomSize = c.server.URL, c.prefix, roomSize
		cfg.First, cfg.N = first+from, to-from
		return s.Connect(ctx, cfg)
	})
}

// leave lets all clients leave and disconnect.
func (c *cast) leave(ctx context.Context) (crew.Outcome, error) {
	return c.each(func(_ int, s *crew.Swarm) (crew.Outcome, error) { return s.Leave(ctx) })
}

// each asks all processes at the same time, and sums up their answers.
func (c *cast) each(ask func(int, *crew.Swarm) (crew.Outcome, error)) (sum crew.Outcome, err error) {
	var all errgroup.Group
	answers := make([]crew.Outcome, len(c.swarms))
	for i, s := range c.swarms {
		all.Go(func() (err error) {
			answers[i], err = ask(i, s)
			return err
		})
	}
	err = all.Wait()
	sum.Refused, sum.Failures = make(map[string]int), make(map[string]int)
	for _, a := range answers {
		sum.Took = append(sum.Took, a.Took...)
		for kind, n := range a.Refused {
			sum.Refused[kind] += n
		}
		for kind, n := range a.Failures {
			sum.Failures[kind] += n
		}
	}
	return sum, err
}

// warm lets some clients come at the same instant and go, so that what a server needs once, such as
// its connections to Redis, is there already. It returns what the server uses then.
func (c *cast) warm(ctx context.Context, clients int, join bool) (m crew.Memory, err error) {
	clients = min(clients, max(minWarm, clients/warmDivisor))
	_, err = c.connect(ctx, 0, clients, crew.ConnectConfig{Join: join, AllTogether: true}) // who fails there fails later, too
	if err == nil {
		_, err = c.leave(ctx)
	}
	if err == nil {
		m, err = c.settle(ctx)
	}
	if err != nil {
		return m, err
	}
	return c.server.Memory(ctx, true)
}

// settle waits until the number of the server's goroutines stays the same, but not for ever, and
// returns what the server uses then.
func (c *cast) settle(ctx context.Context) (m crew.Memory, err error) {
	deadline := time.Now().Add(settleTimeout)
	for last, same := -1, 0; ; last = m.Goroutines {
		if m, err = c.server.Memory(ctx, false); err != nil {
			return m, err
		}
		if same++; m.Goroutines != last {
			same = 0
		}
		if same == 3 || time.Now().After(deadline) {
			return m, nil
		}
		if err := pause(ctx, settlePause); err != nil {
			return m, err
		}
	}
}
