package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room/coordinator"
	"roomd/room/coordinator/inspect"
)

const (
	slowTrip   = 5 * time.Millisecond
	clockDrift = time.Second

	// fullMemory and nearlyFull are shares of maxmemory in percent.
	fullMemory = 95
	nearlyFull = 80
)

type asked struct {
	cfg    config
	db     *redisurl.DB
	client redis.UniversalClient
	rooms  *coordinator.Coordinator
}

func (f *findings) redis(ctx context.Context, a *asked) {
	if a.db.IsEmbedded() {
		f.warn("redis", "Give --redis a URL",
			"the embedded Redis keeps nothing, and serves this node only: for trying things out")
		return
	}
	if err := a.rooms.Ping(ctx); redisconn.NotAllowed(err) {
		f.rights(ctx, a)
		return
	} else if err != nil {
		do, why := explain(ctx, a.db, err)
		f.fail("redis", "Check "+do, "%v", why)
		return
	}
	servers, err := inspect.Servers(ctx, a.client, true)
	switch {
	case redisconn.NotAllowed(err):
		f.warn("redis", "Allow this user +info", "%s answers, and does not say what it is", a.db)
	case err != nil:
		f.fail("redis", "Check that each server can be reached from here", "%s: %v", a.db, err)
		return
	default:
		f.cluster(ctx, a)
		for i := range servers {
			if !f.isRightKind(a, &servers[i]) {
				return
			}
			f.server(a, &servers[i])
		}
	}
	if a.cfg.KeyPrefix != "" {
		f.ok("key prefix", "keys and channels begin with %[1]s, such as %[1]sRoom:<id>:Users", a.cfg.KeyPrefix)
	}
	f.rights(ctx, a)
	f.foreign(ctx, a)
	f.nodes(ctx, a)
}

// explain returns why Redis did not answer a ping, and what to check.
func explain(ctx context.Context, db *redisurl.DB, err error) (do string, why error) {
	switch err = db.Explain(ctx, err); {
	case errors.Is(err, redisurl.ErrLogin):
		return "--redis-password-file, and the user in --redis", fmt.Errorf("%s answers: %w", db, err)
	case errors.Is(err, redisurl.ErrSentinelLogin):
		return "--redis-sentinel-password-file, and sentinel_username in --redis", fmt.Errorf("%s: %w", db, err)
	case redisconn.Answered(err):
		return "its log", fmt.Errorf("%s answers, and refuses what a node asks: %w", db, err)
	}
	return "--redis, that Redis runs, and the way to it", fmt.Errorf("%s does not answer: %w", db, err)
}

func (f *findings) cluster(ctx context.Context, a *asked) {
	state, err := inspect.ClusterOf(ctx, a.client)
	switch {
	case err != nil:
		f.fail("cluster", "Allow this user +cluster", "%v", err)
	case state == nil:
	case state.State != "ok":
		f.fail("cluster", "See redis-cli --cluster check",
			"the Cluster says cluster_state:%s, %d of 16384 slots are served", state.State, state.SlotsOK)
	default:
		f.ok("cluster", "%d masters serve all slots", state.MastersAll)
	}
}

// isRightKind reports whether the URL fits the server. Otherwise no other answer is meaningful.
func (f *findings) isRightKind(a *asked, s *inspect.Server) bool {
	_, isCluster := a.client.(*redis.ClusterClient)
	switch {
	case s.Mode == "sentinel":
		f.fail("redis", "Write it as redis+sentinel://"+s.Address+"/MASTER",
			"%s is a Sentinel, and keeps nothing itself", s.Address)
	case s.Mode == "cluster" && !isCluster:
		f.fail("redis", "Write it as redis+cluster://"+s.Address, "%s is part of a Redis Cluster", s.Address)
	default:
		return true
	}
	return false
}

func (f *findings) server(a *asked, s *inspect.Server) {
	switch {
	case s.TooOld:
		f.fail("redis", "Install Redis 7.0 or later", "%s is %s", s.Address, s.Product)
	case s.Loading:
		f.fail("redis", "Wait until it has read its data", "%s is loading", s.Address)
	case s.ReadOnly:
		f.fail("redis", "Name its master in --redis, or its Sentinels", "%s is a read-only replica", s.Address)
	default:
		f.ok("redis", "%s: %s", s.Address, cmp.Or(s.Product, "it does not say what it is"))
	}
	if s.NoRunID {
		f.warn("restarts", "Keep all writes on disk, or take another server",
			"%s does not tell its run_id, so no node notices its restart from an older copy of its data: rooms go back to it, "+
				"and whoever came since has no seat", s.Address)
	}
	f.memory(s)
	f.persistence(s)
	f.replicas(a, s)
	f.coverage(s)
	f.clock(s)
	f.trip(a, s)
}

func (f *findings) memory(s *inspect.Server) {
	const mib = 1 << 20
	do := "Set maxmemory-policy noeviction"
	switch full := percent(s.UsedMemory, s.MaxMemory); {
	case s.Evicts() && s.MaxMemory > 0:
		f.fail("memory", do, "%s evicts keys when it has %d MiB (%s): members lose their seats, and holders their locks",
			s.Address, s.MaxMemory/mib, s.Policy)
	case s.Evicts():
		f.warn("memory", do, "%s would evict keys (%s) if it had a maxmemory", s.Address, s.Policy)
	case full >= fullMemory:
		f.fail("memory", "Raise maxmemory, or delete what is not needed",
			"%s uses %d %% of its maxmemory: joins are refused when it is full", s.Address, full)
	case full >= nearlyFull:
		f.warn("memory", "Raise maxmemory before joins are refused", "%s uses %d %% of its maxmemory", s.Address, full)
	case s.MaxMemory == 0:
		f.ok("memory", "%s uses %d MiB, without a maxmemory", s.Address, s.UsedMemory/mib)
	default:
		f.ok("memory", "%s uses %d %% of %d MiB, and evicts nothing", s.Address, full, s.MaxMemory/mib)
	}
}

func percent(part, whole int64) int64 {
	if whole == 0 {
		return 0
	}
	return part * 100 / whole
}

func (f *findings) persistence(s *inspect.Server) {
	const do = "Set appendonly yes, and appendfsync always or everysec"
	const lost = "Connected players are put back, others lose their seats"
	switch c := s.Config; {
	case s.WriteFailed != "":
		f.fail("persistence", "Look into the log of Redis: is the disk full?",
			"%s could not write its %s file the last time", s.Address, s.WriteFailed)
	case s.AppendOnly && c != nil && c.AppendSync == "always":
		f.ok("persistence", "%s: appendonly yes, appendfsync always: a restart loses nothing", s.Address)
	case s.AppendOnly && c != nil && c.AppendSync == "no":
		f.warn("persistence", "Set appendfsync always or everysec",
			"%s: appendfsync no: if its machine fails, what the last half minute or so has acknowledged is lost",
			s.Address)
	case s.AppendOnly:
		f.ok("persistence",
			"%s: appendonly yes: if its machine fails, what the last second has acknowledged may be lost", s.Address)
	case c != nil && c.Save != "":
		f.warn("persistence", do, "%s: snapshots only (save %s): a restart loses what came after the last one. "+lost,
			s.Address, c.Save)
	case c == nil:
		f.warn("persistence", do,
			"%s: appendonly no: a restart loses what came after the last snapshot, if there are any. "+lost, s.Address)
	default:
		f.warn("persistence", do, "%s keeps nothing on disk: a restart loses all rooms. "+lost, s.Address)
	}
}

func (f *findings) replicas(a *asked, s *inspect.Server) {
	need, do := a.cfg.Replicas, "Start more replicas, or lower --replicas"
	switch {
	case s.IsReplica:
	case s.Replicas < need:
		f.fail("replicas", do, "%s has %d replicas in step, and --replicas is %d: each change ends as unknown",
			s.Address, s.Replicas, need)
	case s.Config != nil && s.Config.MinReplicas > s.Replicas:
		f.fail("replicas", "Start more replicas, or lower min-replicas-to-write",
			"%s refuses writes: it has %d replicas, and min-replicas-to-write is %d", s.Address, s.Replicas,
			s.Config.MinReplicas)
	case need > 0 && s.Replicas == need:
		f.warn("replicas", "Start one more",
			"%s has exactly the %d replicas that --replicas needs: if one is away, each change ends as unknown",
			s.Address, need)
	case need > 0:
		f.ok("replicas", "%s has %d replicas, --replicas is %d", s.Address, s.Replicas, need)
	case s.Replicas > 0:
		f.warn("replicas", "Use --replicas 1",
			"%s has %d replicas, and actions do not wait for them: a failover can lose what was acknowledged",
			s.Address, s.Replicas)
	default:
		f.ok("replicas", "%s has none, and --replicas is 0", s.Address)
	}
}

func (f *findings) coverage(s *inspect.Server) {
	switch {
	case s.Mode != "cluster":
	case s.Config == nil:
		f.ok("coverage", "%s does not tell cluster-require-full-coverage; it should be no", s.Address)
	case s.Config.FullCoverage:
		f.warn("coverage", "Set cluster-require-full-coverage no",
			"%s: the whole Cluster stops when one master has no replica left", s.Address)
	default:
		f.ok("coverage", "%s: other masters go on when one is away", s.Address)
	}
}

func (f *findings) clock(s *inspect.Server) {
	off, by := s.ClockAhead.Abs(), s.ClockAhead.Round(time.Millisecond)
	if off-s.ClockError > clockDrift {
		f.warn("clock", "Keep the clocks in step (NTP): tokens expire by those of the nodes",
			"the clock of %s is %v ahead of this machine's", s.Address, by)
		return
	}
	f.ok("clock", "%s: %v from this machine's, measured to ±%v", s.Address, by, s.ClockError.Round(time.Microsecond))
}

func (f *findings) trip(a *asked, s *inspect.Server) {
	text := fmt.Sprintf("%s answers in %v, the slowest of some in %v", s.Address, s.RoundTrip.Round(time.Microsecond),
		s.SlowestTrip.Round(time.Microsecond))
	switch {
	case s.RoundTrip*10 > a.cfg.LockTTL:
		f.fail("round trip", "Raise --lock-ttl, or move closer to Redis",
			"%s, and a hold may take no longer than --lock-ttl (%v)", text, a.cfg.LockTTL)
	case s.RoundTrip > slowTrip:
		f.warn("round trip", "Move closer to Redis", "%s: an action waits for two of them", text)
	default:
		f.ok("round trip", "%s", text)
	}
}

func (f *findings) rights(ctx context.Context, a *asked) {
	missing, err := a.rooms.MissingRights(ctx)
	switch {
	case err != nil:
		f.fail("rights", "", "%v", err)
	case len(missing) > 0:
		f.fail("rights", "What suffices is: ACL SETUSER name "+coordinator.EnoughRights(a.cfg.KeyPrefix),
			"Redis does not allow this user %s", strings.Join(missing, ", "))
	default:
		f.ok("rights", "this user may do all that a node does")
	}
	if err := a.rooms.CheckKeys(ctx); err != nil {
		f.fail("keys", "", "%v", err)
	}
}

const searchTimeout = 5 * time.Second

func (f *findings) foreign(ctx context.Context, a *asked) {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	count, first := 0, coordinator.Foreign{}
	err := a.rooms.FindForeign(ctx, func(found coordinator.Foreign) {
		if count++; count == 1 || found.Key < first.Key {
			first = found
		}
	})
	switch {
	case count > 0:
		f.warn("rooms", "Rename or delete what is there (the manual has a script for lists of users), "+
			"or give roomd a --key-prefix, another Redis or another database",
			"%d rooms refuse every action, since another program has written under their keys, "+
				"the first of them %s, which is a %s and not a hash", count, first.Key, first.Type)
	case err != nil:
		f.ok("rooms", "not all keys could be searched for those of other programs: %v", err)
	default:
		f.ok("rooms", "no key of a room's members is another program's")
	}
}

// withPrefix names the deployment by its key prefix, or returns "" without one.
func (c *config) withPrefix() string {
	if c.KeyPrefix == "" {
		return ""
	}
	return " with the key prefix " + c.KeyPrefix
}

// nodes compares this configuration with the running nodes.
func (f *findings) nodes(ctx context.Context, a *asked) {
	nodes, err := a.rooms.Nodes(ctx)
	if err != nil {
		f.fail("nodes", "", "%v", err)
		return
	}
	different := 0
	for _, n := range nodes {
		if differences := a.rooms.Settings().Differences(n.Settings); differences != "" {
			different++
			f.warn("nodes", "Start all nodes with the same", "node %s %s runs with %s", n.Name, n.Address, differences)
		}
	}
	switch {
	case len(nodes) == 0:
		f.ok("nodes", "none runs on this Redis%s", a.cfg.withPrefix())
	case different == 0:
		f.ok("nodes", "%d on this Redis%s, with the same settings", len(nodes), a.cfg.withPrefix())
	}
}
