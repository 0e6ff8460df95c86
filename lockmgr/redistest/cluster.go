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

// Cluster is a launch.Cluster of three masters that ends with its test. Its methods are for the test's goroutine.
type Cluster struct {
	*launch.Cluster
	tb      testing.TB
	servers []*Server            // the masters
	moves   map[int]*launch.Move // by slot: moves under way
}

// StartCluster runs three masters, each with a third of the slots, and returns when all of them know that and
// accept writes. args go to every redis-server. If no redis-server is installed, StartCluster skips the test or
// fails it, as Start does.
//
// It takes a little more than 2 s, because a master accepts no writes before that.
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
		c.Cluster, err = launch.StartCluster(ctx, masters, 0, launch.Config{Args: args})
		return err
	})
	tb.Cleanup(c.Close)
	for _, r := range c.Servers {
		c.servers = append(c.servers, &Server{tb, r})
	}
	return c
}

// within fails the test unless f succeeds within a minute.
func (c *Cluster) within(f func(context.Context) error) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	OK(c.tb, f(ctx))
}

// AddReplica runs a replica of node i. It returns when the replica is in sync and all masters would vote for
// it. The replica takes over once node i has been gone for some 3 s. Node, Owner and the moves know only the
// first three nodes.
func (c *Cluster) AddReplica(i int) (replica *Server) {
	c.tb.Helper()
	c.within(func(ctx context.Context) error {
		r, err := c.Cluster.AddReplica(ctx, c.servers[i].Redis)
		replica = &Server{c.tb, r}
		return err
	})
	return replica
}

// WaitReady returns when every node reports that the cluster is well and knows the owner of every slot, and
// replicas follow. Call it after a Restart of a node, for example.
func (c *Cluster) WaitReady() {
	c.tb.Helper()
	waitFor(c.tb, "the cluster", c.Ready)
}

// Client returns a new client of the cluster, closed with the test.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                      c.Addrs(),
		ContextTimeoutEnabled:      true,
		DialTimeout:                time.Second,
		DialerRetries:              1,
		ClusterStateReloadInterval: time.Second, // by default the client sees a failover after a minute
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Node returns one of the three nodes, counted from 0.
func (c *Cluster) Node(i int) *Server { return c.servers[i] }

// Owner returns the node that has the slot of key; during a move that is the old one.
func (c *Cluster) Owner(key string) *Server {
	c.tb.Helper()
	var i int
	c.within(func(ctx context.Context) error {
		r, err := c.Cluster.Owner(ctx, key)
		i = slices.Index(c.Servers, r)
		return err
	})
	return c.servers[i]
}

// Move moves the slot of key, with all its keys, from its owner to the next node. Clients learn that by MOVED.
// BeginMove, MoveKeys and FinishMove do the same in three steps, for tests of the states in between.
func (c *Cluster) Move(key string) {
	c.tb.Helper()
	c.BeginMove(key)
	c.MoveKeys(key)
	c.FinishMove(key)
}

// BeginMove starts to move the slot of key to the next node. The old owner still serves the keys that it has. It
// answers ASK to a command on other keys of the slot, and TRYAGAIN if it has only some of a command's keys.
func (c *Cluster) BeginMove(key string) {
	c.tb.Helper()
	to := c.servers[(slices.Index(c.servers, c.Owner(key))+1)%len(c.servers)]
	c.within(func(ctx context.Context) error {
		m, err := c.Cluster.BeginMove(ctx, key, to.Redis)
		if err == nil {
			c.moves[m.Slot] = m
		}
		return err
	})
}

// MoveKeys moves the keys in the slot of key, after BeginMove. The slot stays with its old owner, whose clients
// now get ASK for all of them.
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

// FinishMove tells every node the new owner of a slot whose keys have moved, and returns when they agree.
// Clients that still ask the old owner get MOVED.
func (c *Cluster) FinishMove(key string) {
	c.tb.Helper()
	m := c.begun(key)
	c.within(m.Finish)
	delete(c.moves, m.Slot)
	waitFor(c.tb, "the cluster to agree", c.Agree)
}

// begun returns the move of key's slot that is under way.
func (c *Cluster) begun(key string) (m *launch.Move) {
	c.tb.Helper()
	c.within(func(ctx context.Context) error {
		slot, err := c.Cluster.Slot(ctx, key)
		m = c.moves[slot]
		return err
	})
	if m == nil {
		c.tb.Fatalf("the move of the slot of %q has not begun", key)
	}
	return m
}
