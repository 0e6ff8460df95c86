package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	nodes    []*Server       // the masters
	admin    []*redis.Client // one for each of them
	replicas int
	moves    map[int]move // by slot, begun and not finished
}

// move takes a slot from one node to another; both are indexes.
type move struct{ from, to int }

// StartCluster runs three masters, each with a third of the slots, and returns
// when all of them know it and accept writes. args go to every redis-server; the
// rules about a missing one are those of Start.
//
// It takes a little more than 2 s: a master does not accept writes any sooner
// after its start.
func StartCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, moves: make(map[int]move)}
	c.args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"}, args...)
	var buses [masters]int
	for i := range masters {
		var node *Server
		node, buses[i] = c.start()
		c.nodes = append(c.nodes, node)
		c.admin = append(c.admin, node.Client())
	}
	for i := range masters {
		// Different epochs from the start save the nodes from settling them.
		c.do(i, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		c.do(i, "CLUSTER", "ADDSLOTSRANGE", i*hashSlots/masters, (i+1)*hashSlots/masters-1)
		for j := range i {
			c.do(i, "CLUSTER", "MEET", "127.0.0.1", c.nodes[j].port(), buses[j])
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

// AddReplica runs a replica of one of the three nodes, and returns when it is in sync
// and all masters would vote for it. It takes that node's place when it has been
// gone for some 3 s. The other methods still mean the three nodes of the beginning.
func (c *Cluster) AddReplica(i int) *Server {
	c.tb.Helper()
	replica, bus := c.start()
	c.replicas++
	admin := replica.Client()
	id := c.id(i)
	for j := range c.nodes {
		c.do(j, "CLUSTER", "MEET", "127.0.0.1", replica.port(), bus)
	}
	// Refused until it has heard of its master.
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

// WaitReady returns when every node says that the cluster is well and that it
// knows the owner of every slot, such as after a Restart of one.
func (c *Cluster) WaitReady() {
	c.tb.Helper()
	waitFor(c.tb, "the cluster", func(ctx context.Context) error {
		for i, admin := range c.admin {
			info, err := admin.ClusterInfo(ctx).Result()
			if err != nil {
				return fmt.Errorf("node %d: %w", i, err)
			}
			for _, want := range []string{
				"cluster_state:ok", "cluster_known_nodes:" + strconv.Itoa(masters+c.replicas),
				"cluster_slots_ok:" + strconv.Itoa(hashSlots),
			} {
				if !strings.Contains(info, want+"\r\n") {
					return fmt.Errorf("node %d: not %s", i, want)
				}
			}
		}
		return nil
	})
}

// Addrs returns host:port of every node.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, node := range c.nodes {
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
func (c *Cluster) Node(i int) *Server { return c.nodes[i] }

// Owner returns the node that has the slot of key. During a move that is the node
// the slot comes from.
func (c *Cluster) Owner(key string) *Server {
	c.tb.Helper()
	return c.nodes[c.owner(c.slot(key))]
}

// slot returns the slot of key.
func (c *Cluster) slot(key string) int {
	c.tb.Helper()
	var slot int64
	err := c.ask(func(ctx context.Context, admin *redis.Client) (err error) {
		slot, err = admin.ClusterKeySlot(ctx, key).Result()
		return err
	})
	if err != nil {
		c.tb.Fatalf("slot of %q: %v", key, err)
	}
	return int(slot)
}

func (c *Cluster) owner(slot int) int {
	c.tb.Helper()
	var shards []redis.ClusterShard
	err := c.ask(func(ctx context.Context, admin *redis.Client) (err error) {
		shards, err = admin.ClusterShards(ctx).Result()
		return err
	})
	for _, shard := range shards {
		for _, r := range shard.Slots {
			if r.Start <= int64(slot) && int64(slot) <= r.End {
				return slices.IndexFunc(c.nodes, func(s *Server) bool { return int64(s.port()) == shard.Nodes[0].Port })
			}
		}
	}
	c.tb.Fatalf("slot %d has no owner (%v)", slot, err)
	return 0
}

// ask runs f with the nodes' clients in turn until one answers: a test may have
// killed any of them.
func (c *Cluster) ask(f func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	for _, admin := range c.admin {
		if err = f(ctx, admin); err == nil {
			return nil
		}
	}
	return err
}

// do runs a command on node i, which has to succeed.
func (c *Cluster) do(i int, args ...any) *redis.Cmd {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := c.admin[i].Do(ctx, args...)
	if err := cmd.Err(); err != nil {
		c.tb.Fatalf("node %d: %v: %v", i, args, err)
	}
	return cmd
}
