package redistest

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
	slot := c.slot(key)
	if _, begun := c.moves[slot]; begun {
		c.tb.Fatalf("the slot of %q is being moved already", key)
	}
	m := move{from: c.owner(slot)}
	m.to = (m.from + 1) % len(c.servers)
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
		migrate := []any{"MIGRATE", "127.0.0.1", c.servers[m.to].port(), "", 0, stateTimeout.Milliseconds(), "KEYS"}
		for _, k := range keys {
			migrate = append(migrate, k)
		}
		c.do(m.from, migrate...)
	}
}

// FinishMove tells every node the new owner of a slot whose keys have been moved, and returns
// when they agree. Clients that still ask the old owner see MOVED.
func (c *Cluster) FinishMove(key string) {
	c.tb.Helper()
	slot, m := c.begun(key)
	id := c.id(m.to)
	// The new owner first: as long as it does not know, it sends clients back.
	c.do(m.to, "CLUSTER", "SETSLOT", slot, "NODE", id)
	for i := range c.servers {
		if i != m.to {
			c.do(i, "CLUSTER", "SETSLOT", slot, "NODE", id)
		}
	}
	delete(c.moves, slot)
	// A new owner needs a larger epoch than all owners before it, or a late message of one of
	// them takes the slot away again. It derives its epoch from those that it knows. So all
	// nodes have to know all epochs before the next move.
	waitFor(c.tb, "the cluster to agree", c.agree)
}

// begun returns the move of the slot of key, which has begun.
func (c *Cluster) begun(key string) (slot int, m move) {
	c.tb.Helper()
	slot = c.slot(key)
	m, ok := c.moves[slot]
	if !ok {
		c.tb.Fatalf("the move of the slot of %q has not begun", key)
	}
	return slot, m
}
