package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redistest/launch"
)

const (
	masters   = 3
	hashSlots = 16384
)

// Cluster is a Redis Cluster of three masters that ends with the test that
// started it. Its methods are for the goroutine of the test.
type Cluster struct {
	tb       testing.TB
	args     []string
	servers  []*Server       // the masters
	admin    []*redis.Client // one for each of them
	replicas int
	moves    map[int]move // by slot, begun and not finished
}

// move takes a slot from one node to another; both are indexes.
type move struct{ from, to int }

// StartCluster runs three masters, each with a third of the slots, and returns
// when all of them know it and accept writes. args go to every redis-server. If none is
// installed, StartCluster does as Start does.
//
// It takes a little more than 2 s: a master accepts no writes before that.
func StartCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, moves: make(map[int]move)}
	c.args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"}, args...)
	var buses [masters]int
	for i := range masters {
		var node *Server
		node, buses[i] = c.start()
		c.servers = append(c.servers, node)
		c.admin = append(c.admin, node.Client())
	}
	for i := range masters {
		// Different epochs from the start: the nodes need not agree on them first.
		c.do(i, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		c.do(i, "CLUSTER", "ADDSLOTSRANGE", i*hashSlots/masters, (i+1)*hashSlots/masters-1)
		for j := range i {
			c.do(i, "CLUSTER", "MEET", "127.0.0.1", c.servers[j].port(), buses[j])
		}
	}
	c.WaitReady()
	return c
}

// start runs one more server, and returns it and its second port.
func (c *Cluster) start() (node *Server, bus int) {
	c.tb.Helper()
	plain := launch.Plain()
	node = start(c.tb, launch.Command{Ready: plain.Ready, Args: func(s *launch.Server) (args []string, err error) {
		// By default the second port is the first plus 10000, which need not be free.
		if bus, err = launch.FreePort(); err != nil {
			return nil, err
		}
		args, err = plain.Args(s)
		return append(append(args, c.args...), "--cluster-port", strconv.Itoa(bus)), err
	}})
	return node, bus
}

// AddReplica runs a replica of node i, and returns when it is in sync and all masters would
// vote for it. It replaces node i once that has been gone for some 3 s. The other methods
// still mean the three nodes of the beginning.
func (c *Cluster) AddReplica(i int) *Server {
	c.tb.Helper()
	replica, bus := c.start()
	c.replicas++
	admin := replica.Client()
	id := c.id(i)
	for j := range c.servers {
		c.do(j, "CLUSTER", "MEET", "127.0.0.1", replica.port(), bus)
	}
	// The replica refuses until it has heard of its master.
	waitFor(c.tb, "the replica", func(ctx context.Context) error { return admin.ClusterReplicate(ctx, id).Err() })
	waitFor(c.tb, "the replica to be in sync", func(ctx context.Context) error {
		info, err := admin.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New("it is not")
		}
		return err
	})
	self, err := admin.ClusterMyID(c.tb.Context()).Result()
	if err != nil {
		c.tb.Fatal(err)
	}
	waitFor(c.tb, "the replica to be known", func(ctx context.Context) error {
		for j, admin := range c.admin {
			nodes, err := admin.ClusterNodes(ctx).Result()
			if err != nil {
				return fmt.Errorf("node %d: %w", j, err)
			}
			known := false
			for line := range strings.Lines(nodes) {
				f := strings.Fields(line) // id, address, flags, primary
				known = known || len(f) > 3 && f[0] == self && f[2] == "slave" && f[3] == id
			}
			if !known {
				return fmt.Errorf("node %d does not know it", j)
			}
		}
		return nil
	})
	return replica
}

// WaitReady returns when every node says that the cluster is well and that it knows the owner
// of every slot. Call it after a Restart of a node, for example.
func (c *Cluster) WaitReady() {
	c.tb.Helper()
	waitFor(c.tb, "the cluster", func(ctx context.Context) error { return c.ready(ctx, masters+c.replicas) })
}

// Addrs returns host:port of every node.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, node := range c.servers {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

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
	return c.servers[c.owner(c.slot(key))]
}

// StartClusterOfOne starts a Cluster of one server, which has all slots.
func StartClusterOfOne(tb testing.TB) *Server {
	tb.Helper()
	server := Start(tb, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
	admin := server.Client()
	if err := admin.Do(tb.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		tb.Fatal(err)
	}
	Until(tb, "the Cluster gets ready", func() bool {
		return strings.Contains(admin.ClusterInfo(tb.Context()).Val(), "cluster_state:ok")
	})
	return server
}
