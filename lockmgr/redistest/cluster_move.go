package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Move takes the slot of key, with all its keys, from its owner to the next node.
// Clients find out by MOVED. Its three parts can be had one by one, to test what
// happens in between.
func (c *Cluster) Move(key string) {
	c.tb.Helper()
	c.BeginMove(key)
	c.MoveKeys(key)
	c.FinishMove(key)
}

// BeginMove opens the way for the slot of key to the next node. The old owner goes
// on serving the keys that it has; for others its clients see ASK and, in one
// command with such that it has, TRYAGAIN.
func (c *Cluster) BeginMove(key string) {
	c.tb.Helper()
	slot := c.slot(key)
	if _, begun := c.moves[slot]; begun {
		c.tb.Fatalf("the slot of %q is being moved already", key)
	}
	m := move{from: c.owner(slot)}
	m.to = (m.from + 1) % len(c.nodes)
	c.do(m.to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(m.from))
	c.do(m.from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(m.to))
	c.moves[slot] = m
}

// MoveKeys moves the keys of a slot whose move has begun. The slot stays with its
// old owner, whose clients now see ASK for all of them.
func (c *Cluster) MoveKeys(key string) {
	c.tb.Helper()
	slot, m := c.begun(key)
	const atOnce = 100
	for {
		keys, err := c.do(m.from, "CLUSTER", "GETKEYSINSLOT", slot, atOnce).StringSlice()
		if err != nil {
			c.tb.Fatal(err)
		}
		if len(keys) == 0 {
			return
		}
		migrate := []any{"MIGRATE", "127.0.0.1", c.nodes[m.to].port(), "", 0, patience.Milliseconds(), "KEYS"}
		for _, k := range keys {
			migrate = append(migrate, k)
		}
		c.do(m.from, migrate...)
	}
}

// FinishMove makes every node know the new owner of a slot whose keys have been
// moved, and returns when they agree on it. Clients that still ask the old one see
// MOVED.
func (c *Cluster) FinishMove(key string) {
	c.tb.Helper()
	slot, m := c.begun(key)
	id := c.id(m.to)
	// The new owner first: as long as it does not know, it sends clients back.
	c.do(m.to, "CLUSTER", "SETSLOT", slot, "NODE", id)
	for i := range c.nodes {
		if i != m.to {
			c.do(i, "CLUSTER", "SETSLOT", slot, "NODE", id)
		}
	}
	delete(c.moves, slot)
	// An owner's epoch has to be above those of the owners before, or what one of them
	// said earlier takes the slot away again when it comes late. The new owner makes
	// its epoch of those it knows: let it know them before the next move.
	waitFor(c.tb, "the cluster to agree", c.agree)
}

// agree returns nil if all nodes have the same idea of who owns what, by what epoch.
func (c *Cluster) agree(ctx context.Context) error {
	var first string
	for i, admin := range c.admin {
		said, err := admin.ClusterNodes(ctx).Result()
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		owned := make(map[string]string)
		for line := range strings.Lines(said) {
			// id, address, flags, primary, ping, pong, epoch, link, slots
			if f := strings.Fields(line); len(f) >= 8 {
				slots := slices.DeleteFunc(f[8:], func(s string) bool { return s[0] == '[' }) // moves that have begun
				owned[f[0]] = fmt.Sprint(f[6], slots)
			}
		}
		if view := fmt.Sprint(owned); first == "" {
			first = view
		} else if view != first {
			return fmt.Errorf("node %d says %s, node 0 %s", i, view, first)
		}
	}
	return nil
}

func (c *Cluster) begun(key string) (slot int, m move) {
	c.tb.Helper()
	slot = c.slot(key)
	m, ok := c.moves[slot]
	if !ok {
		c.tb.Fatalf("the move of the slot of %q has not begun", key)
	}
	return slot, m
}

// id returns what node i is called in the cluster.
func (c *Cluster) id(i int) string {
	c.tb.Helper()
	id, err := c.do(i, "CLUSTER", "MYID").Text()
	if err != nil {
		c.tb.Fatal(err)
	}
	return id
}
