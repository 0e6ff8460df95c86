package redistest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redistest/launch"
)

// Cluster is a launch.Cluster of three masters that ends with the test that
// started it. Its methods are for the goroutine of the test.
type Cluster struct {
	tb      testing.TB
	cluster *launch.Cluster
	servers []*Server            // the masters
	moves   map[int]*launch.Move // by slot, begun and not finished
}

// StartCluster runs three masters, each with a third of the slots, and returns
// when all of them know it and accept writes. args go to every redis-server. If none is
// installed, StartCluster does as Start does.
//
// It takes a little more than 2 s: a master accepts no writes before that.
func StartCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	return startCluster(tb, 3, args...)
}

// StartClusterOfOne starts a Cluster of one server, which has all slots.
func StartClusterOfOne(tb testing.TB) *Server {
	tb.Helper()
	return startCluster(tb, 1).Node(0)
}

func startCluster(tb testing.TB, masters int, args ...string) *Cluster {
	tb.Helper()
	Need(tb, "redis-server")
	c := &Cluster{tb: tb, moves: make(map[int]*launch.Move)}
	c.within(func(ctx context.Context) (err error) {
		c.cluster, err = launch.StartCluster(ctx, masters, 0, launch.Config{Args: args})
		return err
	})
	tb.Cleanup(c.cluster.Close)
	for _, r := range c.cluster.Servers {
		c.servers = append(c.servers, &Server{tb, r})
	}
	return c
}

// within fails the test unless f succeeds, for which it has a minute.
func (c *Cluster) within(f func(context.Context) error) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	OK(c.tb, f(ctx))
}

// AddReplica runs a replica of node i, and returns when it is in sync and all masters would
// vote for it. It replaces node i once that has been gone for some 3 s. The other methods
// still mean the three nodes of the beginning.
func (c *Cluster) AddReplica(i int) (replica *Server) {
	c.tb.Helper()
	c.within(func(ctx context.Context) error {
		r, err := c.cluster.AddReplica(ctx, c.servers[i].Redis)
		replica = &Server{c.tb, r}
		return err
	})
	return replica
}

// WaitReady returns when every node says that the cluster is well and that it knows the owner
// of every slot, and replicas follow. Call it after a Restart of a node, for example.
func (c *Cluster) WaitReady() {
	c.tb.Helper()
	waitFor(c.tb, "the cluster", c.cluster.Ready)
}

// Addrs returns host:port of every node.
func (c *Cluster) Addrs() []string { return c.cluster.Addrs() }

// Client returns a new client of the cluster, closed with the test.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                      c.Addrs(),
		ContextTimeoutEnabled:      true,
		DialTimeout:                time.Second,
		DialerRetries:              1,
		ClusterStateReloadInterval: time.Second, // by default a minute passes until it sees a failover
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Node returns one of the three nodes, counted from 0.
func (c *Cluster) Node(i int) *Server { return c.servers[i] }

// Owner returns the node that has the slot of key: during a move, still the old one.
func (c *Cluster) Owner(key string) *Server {
	c.tb.Helper()
	return c.servers[c.owner(key)]
}

// owner returns the index of the node that has the slot of key.
func (c *Cluster) owner(key string) (i int) {
	c.tb.Helper()
	c.within(func(ctx context.Context) error {
		r, err := c.cluster.Owner(ctx, key)
		i = slices.Index(c.cluster.Servers, r)
		return err
	})
	return i
}

// Move takes the slot of key, with all its keys, from its owner to the next node.
// Clients find out by MOVED. BeginMove, MoveKeys and FinishMove do the same in three steps, to
// test what happens in between.
func (c *Cluster) Move(key string) {
	c.tb.Helper()
	c.BeginMove(key)
	c.MoveKeys(key)
	c.FinishMove(key)
}

// BeginMove begins to move the slot of key to the next node. The old owner still serves the
// keys that it has. For others its clients see ASK, and TRYAGAIN if a command names keys of
// both kinds.
func (c *Cluster) BeginMove(key string) {
	c.tb.Helper()
	to := c.servers[(c.owner(key)+1)%len(c.servers)]
	c.within(func(ctx context.Context) error {
		m, err := c.cluster.BeginMove(ctx, key, to.Redis)
		if err == nil {
			c.moves[m.Slot] = m
		}
		return err
	})
}

// MoveKeys moves the keys of a slot whose move has begun. The slot stays with its
// old owner, whose clients now see ASK for all of them.
func (c *Cluster) MoveKeys(key string) {
	c.tb.Helper()
	m := c.begun(key)
	c.within(func(ctx context.Context) (err error) {
		for some := true; some && err == nil; {
			some, err = m.Keys(ctx)
		}
		return err
	})
}

// FinishMove tells every node the new owner of a slot whose keys have been moved, and returns
// when they agree. Clients that still ask the old owner see MOVED.
func (c *Cluster) FinishMove(key string) {
	c.tb.Helper()
	m := c.begun(key)
	c.within(m.Finish)
	delete(c.moves, m.Slot)
	waitFor(c.tb, "the cluster to agree", c.cluster.Agree)
}

// begun returns the move of the slot of key, which has begun.
func (c *Cluster) begun(key string) (m *launch.Move) {
	c.tb.Helper()
	c.within(func(ctx context.Context) error {
		slot, err := c.cluster.Slot(ctx, key)
		m = c.moves[slot]
		return err
	})
	if m == nil {
		c.tb.Fatalf("the move of the slot of %q has not begun", key)
	}
	return m
}
