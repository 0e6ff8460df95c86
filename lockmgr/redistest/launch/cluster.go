package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Slots is how many hash slots a Cluster has.
const Slots = 16384

// Cluster is a Redis Cluster. Its methods are safe for concurrent use, except AddReplica.
type Cluster struct {
	Servers []*Redis // the first masters, then the replicas

	cfg     Config
	masters int
	buses   []int // their bus ports
}

// StartCluster starts masters, each with its part of the slots and as many replicas as replicas says. It returns when
// all is well, or with an error when ctx ends. It takes more than 2 s, because a master accepts no writes before that.
func StartCluster(ctx context.Context, masters, replicas int, cfg Config) (_ *Cluster, err error) {
	c := &Cluster{cfg: cfg, masters: masters}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for i := range masters {
		if err := c.start(ctx); err != nil {
			return nil, err
		}
		// Each gets an epoch of its own, so that the nodes need not agree on them first.
		admin := c.Servers[i].Admin
		if err := admin.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return nil, err
		}
		if err := admin.ClusterAddSlotsRange(ctx, i*Slots/masters, (i+1)*Slots/masters-1).Err(); err != nil {
			return nil, err
		}
		if err := c.meet(ctx, i); err != nil {
			return nil, err
		}
	}
	if err := Await(ctx, c.Ready); err != nil {
		return nil, err
	}
	for range replicas {
		for _, master := range c.Servers[:masters] {
			if _, err := c.AddReplica(ctx, master); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// start starts another server, which does not know the others yet.
func (c *Cluster) start(ctx context.Context) error {
	plain, bus := Plain(), 0
	r, err := c.cfg.start(ctx, "redis", len(c.Servers),
		Command{Ready: plain.Ready, Args: func(s *Server) (args []string, err error) {
			// By default the bus port is the first port plus 10000, which may be in use.
			if bus, err = FreePort(); err != nil {
				return nil, err
			}
			args, err = plain.Args(s)
			args = append(args, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--cluster-port",
				strconv.Itoa(bus), "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")
			return append(args, c.cfg.Args...), err
		}})
	if err == nil {
		c.Servers, c.buses = append(c.Servers, r), append(c.buses, bus)
	}
	return err
}

// meet introduces server i to all servers before it.
func (c *Cluster) meet(ctx context.Context, i int) error {
	for j := range i {
		if err := c.Servers[i].Admin.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", c.Servers[j].Port(),
			c.buses[j]).Err(); err != nil {
			return err
		}
	}
	return nil
}

// AddReplica runs a replica of a master. It returns when the replica is in sync and all servers know it, so
// that all masters would vote for it. The replica takes over once its master has been gone for some 3 s.
func (c *Cluster) AddReplica(ctx context.Context, master *Redis) (*Redis, error) {
	id, err := master.Admin.ClusterMyID(ctx).Result()
	if err != nil {
		return nil, err
	}
	i := len(c.Servers)
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	replica := c.Servers[i]
	if err := c.meet(ctx, i); err != nil {
		return nil, err
	}
	// It refuses until it has heard of its master.
	if err := Await(ctx, func(ctx context.Context) error {
		return replica.Admin.ClusterReplicate(ctx, id).Err()
	}); err != nil {
		return nil, err
	}
	self, err := replica.Admin.ClusterMyID(ctx).Result()
	if err != nil {
		return nil, err
	}
	return replica, Await(ctx, func(ctx context.Context) error {
		for _, r := range c.Servers {
			nodes, err := r.Admin.ClusterNodes(ctx).Result()
			if err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
			known := false
			for line := range strings.Lines(nodes) {
				f := strings.Fields(line) // id, address, flags, primary
				known = known || len(f) > 3 && f[0] == self && strings.HasSuffix(f[2], "slave") && f[3] == id
			}
			if !known {
				return fmt.Errorf("%s does not know %s", r.Name, replica.Name)
			}
		}
		return c.Ready(ctx)
	})
}

// Ready returns nil if every server reports that the Cluster is well and knows the owner of every slot, and
// every replica follows its master.
func (c *Cluster) Ready(ctx context.Context) error {
	following := 0
	for _, r := range c.Servers {
		info, err := r.Admin.ClusterInfo(ctx).Result()
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d", len(c.Servers)),
			fmt.Sprintf("cluster_slots_ok:%d", Slots)} {
			if !strings.Contains(info, want+"\r\n") {
				return fmt.Errorf("%s: not %s", r.Name, want)
			}
		}
		is, err := r.Replication(ctx)
		if err != nil {
			return err
		}
		if is["role"] == "slave" && is["master_link_status"] == "up" {
			following++
		}
	}
	if want := len(c.Servers) - c.masters; following != want {
		return fmt.Errorf("%d of %d replicas follow", following, want)
	}
	return nil
}

// Addrs returns host:port of each of the first masters.
func (c *Cluster) Addrs() []string { return addrs(c.Servers[:c.masters]) }

// Close ends all servers.
func (c *Cluster) Close() { closeAll(c.Servers) }

// Slot returns the slot of a key.
func (c *Cluster) Slot(ctx context.Context, key string) (slot int, err error) {
	err = c.ask(func(r *Redis) error {
		n, err := r.Admin.ClusterKeySlot(ctx, key).Result()
		slot = int(n)
		return err
	})
	return slot, err
}

// Owner returns the server that has the slot of key, according to the first server that answers. During a move
// that is the old owner.
func (c *Cluster) Owner(ctx context.Context, key string) (owner *Redis, err error) {
	slot, err := c.Slot(ctx, key)
	if err != nil {
		return nil, err
	}
	err = c.ask(func(r *Redis) error {
		shards, err := r.Admin.ClusterShards(ctx).Result()
		if err != nil {
			return err
		}
		for _, shard := range shards {
			i := slices.IndexFunc(shard.Nodes, func(n redis.Node) bool { return n.Role == "master" })
			if i >= 0 && slices.ContainsFunc(shard.Slots,
				func(of redis.SlotRange) bool { return of.Start <= int64(slot) && int64(slot) <= of.End }) {
				owner, err = at(c.Servers, fmt.Sprintf("127.0.0.1:%d", shard.Nodes[i].Port))
				return err
			}
		}
		return fmt.Errorf("slot %d has no owner", slot)
	})
	return owner, err
}

// ask calls f with one server after the other until it succeeds, because some may be dead.
func (c *Cluster) ask(f func(*Redis) error) (err error) {
	for _, r := range c.Servers {
		if err = f(r); err == nil {
			return nil
		}
	}
	return err
}

// Agree returns nil if all servers agree on the owners of slots and their epochs.
func (c *Cluster) Agree(ctx context.Context) error {
	var first string
	for _, r := range c.Servers {
		view, err := r.Admin.ClusterNodes(ctx).Result()
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		owned := make(map[string]string)
		for line := range strings.Lines(view) {
			// id, address, flags, primary, ping, pong, epoch, link, slots
			if f := strings.Fields(line); len(f) >= 8 {
				// without slots that are moving
				slots := slices.DeleteFunc(f[8:], func(s string) bool { return s[0] == '[' })
				owned[f[0]] = fmt.Sprint(f[6], slots)
			}
		}
		if said := fmt.Sprint(owned); first == "" {
			first = said
		} else if said != first {
			return fmt.Errorf("%s says %s, %s %s", r.Name, said, c.Servers[0].Name, first)
		}
	}
	return nil
}

// Failover lets a replica take over from a master that is well.
func (c *Cluster) Failover(ctx context.Context, master *Redis) error {
	for _, r := range c.Servers {
		if is, err := r.Replication(ctx); err == nil && is["role"] == "slave" &&
			is["master_port"] == strconv.Itoa(master.Port()) {
			return r.Admin.ClusterFailover(ctx).Err()
		}
	}
	return fmt.Errorf("%s has no replica", master.Name)
}

// Move is a slot on its way from one master to another.
type Move struct {
	Slot     int
	From, To *Redis

	cluster *Cluster
	id      string // the node id of To
}

// BeginMove starts to move the slot of key to another master. The old owner still serves the keys that it has. It
// answers ASK to a command on other keys of the slot, and TRYAGAIN if it has only some of a command's keys.
func (c *Cluster) BeginMove(ctx context.Context, key string, to *Redis) (*Move, error) {
	m := &Move{To: to, cluster: c}
	var err error
	if m.Slot, err = c.Slot(ctx, key); err != nil {
		return nil, err
	}
	if m.From, err = c.Owner(ctx, key); err != nil {
		return nil, err
	}
	if m.id, err = to.Admin.ClusterMyID(ctx).Result(); err != nil {
		return nil, err
	}
	from, err := m.From.Admin.ClusterMyID(ctx).Result()
	if err == nil {
		err = to.Admin.Do(ctx, "CLUSTER", "SETSLOT", m.Slot, "IMPORTING", from).Err()
	}
	if err == nil {
		err = m.From.Admin.Do(ctx, "CLUSTER", "SETSLOT", m.Slot, "MIGRATING", m.id).Err()
	}
	if err != nil {
		m.Abandon(ctx)
	}
	return m, err
}

// Keys moves three keys at most, and reports whether there were some. The slot stays with its old owner, whose clients
// get ASK for these keys.
func (m *Move) Keys(ctx context.Context) (some bool, err error) {
	keys, err := m.From.Admin.ClusterGetKeysInSlot(ctx, m.Slot, 3).Result()
	if err != nil || len(keys) == 0 {
		return false, err
	}
	args := []any{"MIGRATE", "127.0.0.1", m.To.Port(), "", 0, (5 * time.Second).Milliseconds(), "KEYS"}
	for _, key := range keys {
		args = append(args, key)
	}
	return true, m.From.Admin.Do(ctx, args...).Err()
}

// Finish tells every server the new owner of a slot, whose keys have all moved. Clients that still ask the old owner
// get MOVED. Await [Cluster.Agree] before you move another slot: a new owner derives its epoch from those that it
// knows, and if it is not the largest, a late message of an earlier owner takes the slot away again.
func (m *Move) Finish(ctx context.Context) (err error) {
	// The new owner is first: until it knows, it would redirect clients back.
	for _, r := range append([]*Redis{m.To, m.From}, m.cluster.Servers...) {
		if said := r.Admin.Do(ctx, "CLUSTER", "SETSLOT", m.Slot, "NODE", m.id).Err(); r == m.To || r == m.From {
			err = errors.Join(err, said)
		}
	}
	return err
}

// Abandon ends a move that has failed, for example after a failover. The slot stays with its old owner.
func (m *Move) Abandon(ctx context.Context) {
	for _, r := range []*Redis{m.To, m.From} {
		_ = r.Admin.Do(ctx, "CLUSTER", "SETSLOT", m.Slot, "STABLE").Err()
	}
}
