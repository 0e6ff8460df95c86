package redistest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ready returns nil if every node says that the cluster is well, knows that many nodes, and
// knows the owner of every slot.
func (c *Cluster) ready(ctx context.Context, known int) error {
	for i, admin := range c.admin {
		info, err := admin.ClusterInfo(ctx).Result()
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		for _, want := range []string{
			"cluster_state:ok", "cluster_known_nodes:" + strconv.Itoa(known),
			"cluster_slots_ok:" + strconv.Itoa(hashSlots),
		} {
			if !strings.Contains(info, want+"\r\n") {
				return fmt.Errorf("node %d: not %s", i, want)
			}
		}
	}
	return nil
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

// owner returns the index of the node that has a slot.
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
				return slices.IndexFunc(c.servers, func(s *Server) bool { return int64(s.port()) == shard.Nodes[0].Port })
			}
		}
	}
	c.tb.Fatalf("slot %d has no owner (%v)", slot, err)
	return 0
}

// ask calls f with the client of one node after the other until it succeeds: a test may have
// killed some of them.
func (c *Cluster) ask(f func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	var err error
	for _, admin := range c.admin {
		if err = f(ctx, admin); err == nil {
			return nil
		}
	}
	return err
}

// do runs a command on node i, and fails the test if it fails.
func (c *Cluster) do(i int, args ...any) *redis.Cmd {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	cmd := c.admin[i].Do(ctx, args...)
	if err := cmd.Err(); err != nil {
		c.tb.Fatalf("node %d: %v: %v", i, args, err)
	}
	return cmd
}

// id returns the cluster's name of node i.
func (c *Cluster) id(i int) string {
	c.tb.Helper()
	id, err := c.do(i, "CLUSTER", "MYID").Text()
	if err != nil {
		c.tb.Fatal(err)
	}
	return id
}

// agree returns nil if all nodes have the same view of who owns which slots, and by which epoch.
func (c *Cluster) agree(ctx context.Context) error {
	var first string
	for i, admin := range c.admin {
		view, err := admin.ClusterNodes(ctx).Result()
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		owned := make(map[string]string)
		for line := range strings.Lines(view) {
			// id, address, flags, primary, ping, pong, epoch, link, slots
			if f := strings.Fields(line); len(f) >= 8 {
				slots := slices.DeleteFunc(f[8:], func(s string) bool { return s[0] == '[' }) // moves that have begun
				owned[f[0]] = fmt.Sprint(f[6], slots)
			}
		}
		if said := fmt.Sprint(owned); first == "" {
			first = said
		} else if said != first {
			return fmt.Errorf("node %d says %s, node 0 %s", i, said, first)
		}
	}
	return nil
}
