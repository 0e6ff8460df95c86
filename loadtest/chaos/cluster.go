package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest/launch"
)

// clusterServers are three primaries with a replica each.
const clusterServers = 6

// cluster is a Redis Cluster.
type cluster struct {
	all []*server
	rdb *redis.ClusterClient
}

func startCluster(ctx context.Context, cfg Config, log func(string) io.Writer) (_ store, err error) {
	c := new(cluster)
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	var addrs []string
	for i := range clusterServers {
		bus, err := launch.FreePort() // by default the first port and 10000, which need not be free
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("redis-%d", i+1)
		server, err := startServer(ctx, name, cfg, log(name), "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "2000",
			"--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0")
		if err != nil {
			return nil, err
		}
		c.all = append(c.all, server)
		addrs = append(addrs, server.process.Addr())
	}
	create := exec.CommandContext(ctx, "redis-cli", append(append([]string{"--cluster", "create"}, addrs...), "--cluster-replicas", "1", "--cluster-yes")...)
	if said, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("redis-cli --cluster create: %w: %s", err, said)
	}
	c.rdb = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: 2 * time.Second, ContextTimeoutEnabled: true, ClusterStateReloadInterval: time.Second,
	})
	return c, awaitReady(ctx, c)
}

func (c *cluster) url() string {
	var addrs []string
	for _, s := range c.all[:3] {
		addrs = append(addrs, s.process.Addr())
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

func (c *cluster) ends() []end { return endsOf(c.all) }

func (c *cluster) client() redis.UniversalClient { return c.rdb }

func (c *cluster) servers() []*server { return c.all }

func (c *cluster) primary(ctx context.Context, room string) (*server, error) {
	c.rdb.ReloadState(ctx)
	master, err := c.rdb.MasterForKey(ctx, "{"+room+"}")
	if err != nil {
		return nil, err
	}
	return of(c.all, master.Options().Addr)
}

func (c *cluster) ready(ctx context.Context) error {
	for _, s := range c.all {
		info, err := s.admin.ClusterInfo(ctx).Result()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", fmt.Sprintf("cluster_known_nodes:%d", clusterServers)} {
			if !strings.Contains(info, want+"\r\n") {
				return fmt.Errorf("%s: not %s", s.name, want)
			}
		}
		if err := s.replicates(ctx); err != nil {
			return err
		}
	}
	return nil
}

// failOver has the replica of a room's primary, which is well, take over.
func (c *cluster) failOver(ctx context.Context, room string) (*server, error) {
	primary, err := c.primary(ctx, room)
	if err != nil {
		return nil, err
	}
	for _, s := range c.all {
		if s.follows(ctx) == primary.process.Port() {
			return primary, s.admin.ClusterFailover(ctx).Err()
		}
	}
	return nil, fmt.Errorf("%s has no replica", primary.name)
}

// moveSlot takes a room's slot, with its keys, to another primary, and returns whereto.
func (c *cluster) moveSlot(ctx context.Context, room string, choose int) (to *server, err error) {
	from, err := c.primary(ctx, room)
	if err != nil {
		return nil, err
	}
	var others []*server
	for _, s := range c.all {
		if s != from && s.follows(ctx) == 0 {
			others = append(others, s)
		}
	}
	if len(others) == 0 {
		return nil, errors.New("there is no other primary")
	}
	to = others[choose%len(others)]
	slot, err := to.admin.ClusterKeySlot(ctx, "{"+room+"}").Result()
	if err != nil {
		return nil, err
	}
	ids := make(map[*server]string)
	for _, s := range []*server{from, to} {
		if ids[s], err = s.admin.ClusterMyID(ctx).Result(); err != nil {
			return nil, err
		}
	}
	if err = to.admin.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from]).Err(); err == nil {
		err = from.admin.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to]).Err()
	}
	for err == nil {
		var keys []string
		if keys, err = from.admin.ClusterGetKeysInSlot(ctx, int(slot), 3).Result(); err != nil || len(keys) == 0 {
			break
		}
		move := []any{"MIGRATE", "127.0.0.1", to.process.Port(), "", 0, 5000, "KEYS"}
		for _, key := range keys {
			move = append(move, key)
		}
		err = from.admin.Do(ctx, move...).Err()
		_ = pause.For(ctx, 10*time.Millisecond)
	}
	if err != nil { // as after a failover of which not all know
		for _, s := range []*server{to, from} {
			_ = s.admin.Do(ctx, "CLUSTER", "SETSLOT", slot, "STABLE").Err()
		}
		return to, err
	}
	for _, s := range append([]*server{to, from}, c.all...) { // the new owner first
		if said := s.admin.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[to]).Err(); said != nil && (s == to || s == from) {
			err = errors.Join(err, said)
		}
	}
	return to, err
}

func (c *cluster) close() {
	if c.rdb != nil {
		_ = c.rdb.Close()
	}
	for _, s := range c.all {
		s.close()
	}
}
