package chaos

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest/launch"
)

// store is the Redis of a run according to its profile.
type store struct {
	url     string                // for the nodes' --redis
	all     []*server             // servers with rooms, including replicas
	ends    []end                 // all that nodes connect to: servers and Sentinels
	rdb     redis.UniversalClient // for observers
	cluster *launch.Cluster       // nil without one

	// keeps returns the server that now keeps a room.
	keeps func(ctx context.Context, room string) (*launch.Redis, error)

	// ready returns nil if all servers serve, and replicas follow.
	ready func(ctx context.Context) error

	// takeOver lets a replica take over from a primary that is well. Nil without replicas.
	takeOver func(ctx context.Context, primary *launch.Redis) error

	end func()
}

// openStore starts the Redis of a profile, and returns when it is ready.
func openStore(ctx context.Context, cfg Config, log func(string) io.Writer) (s *store, err error) {
	how := launch.Config{Args: persistArgs(cfg.Persist), Log: log}
	switch cfg.Profile {
	case Standalone:
		s, err = openStandalone(ctx, cfg, how)
	case Sentinel:
		s, err = openSentinel(ctx, cfg, how)
	default:
		s, err = openCluster(ctx, cfg, how)
	}
	if err != nil {
		return nil, err
	}
	db, err := redisurl.Open(s.url + "?read_timeout=2s")
	if err != nil {
		s.end()
		return nil, err
	}
	s.rdb = db.NewClient()
	return s, nil
}

func openStandalone(ctx context.Context, cfg Config, how launch.Config) (*store, error) {
	command := launch.Plain(how.Args...)
	command.Log = how.Log("redis")
	r, err := launch.StartRedis(ctx, "redis", command)
	if err != nil {
		return nil, err
	}
	one := []*launch.Redis{r}
	return &store{
		url: r.URL(), all: serversOf(one, cfg), ends: endsOf(one), end: func() { _ = r.Close() },
		keeps: func(context.Context, string) (*launch.Redis, error) { return r, nil },
		ready: func(ctx context.Context) error { return r.Admin.Ping(ctx).Err() },
	}, nil
}

func openSentinel(ctx context.Context, cfg Config, how launch.Config) (*store, error) {
	l, err := launch.StartSentinel(ctx, how)
	if err != nil {
		return nil, err
	}
	s := &store{
		url: "redis+sentinel://" + strings.Join(l.Addrs(), ",") + "/" + launch.MasterName, ready: l.Ready, end: l.Close,
		all: serversOf(l.Servers, cfg), ends: endsOf(slices.Concat(l.Servers, l.Sentinels)),
	}
	s.keeps = func(ctx context.Context, _ string) (*launch.Redis, error) { return l.Primary(ctx) }
	s.takeOver = func(ctx context.Context, _ *launch.Redis) error { return l.Failover(ctx) }
	return s, nil
}

// openCluster starts three primaries with a replica each.
func openCluster(ctx context.Context, cfg Config, how launch.Config) (*store, error) {
	how.Args = append(how.Args, "--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no")
	c, err := launch.StartCluster(ctx, 3, 1, how)
	if err != nil {
		return nil, err
	}
	s := &store{
		url: "redis+cluster://" + strings.Join(c.Addrs(), ","), ready: c.Ready, end: c.Close, takeOver: c.Failover,
		cluster: c, all: serversOf(c.Servers, cfg), ends: endsOf(c.Servers),
	}
	s.keeps = func(ctx context.Context, room string) (*launch.Redis, error) { return c.Owner(ctx, "{"+room+"}") }
	return s, nil
}

func serversOf(launched []*launch.Redis, cfg Config) (all []*server) {
	for _, r := range launched {
		all = append(all, &server{Redis: r, process: process{server: r.Server, name: r.Name}, persist: cfg.Persist})
	}
	return all
}

func endsOf(launched []*launch.Redis) (ends []end) {
	for _, r := range launched {
		ends = append(ends, end{r.Name, r.Addr()})
	}
	return ends
}

// primary returns the server that now keeps a room.
func (s *store) primary(ctx context.Context, room string) (*server, error) {
	r, err := s.keeps(ctx, room)
	if err != nil {
		return nil, err
	}
	return s.all[slices.IndexFunc(s.all, func(s *server) bool { return s.Redis == r })], nil
}

// failOver lets a replica take over from the primary of a room, which is well.
func (s *store) failOver(ctx context.Context, room string) (*server, error) {
	primary, err := s.primary(ctx, room)
	if err != nil {
		return nil, err
	}
	return primary, s.takeOver(ctx, primary.Redis)
}

// moveSlot moves a room's slot with its keys to another primary of the Cluster, and returns that one.
func (s *store) moveSlot(ctx context.Context, room string, choose int) (to *server, err error) {
	from, err := s.primary(ctx, room)
	if err != nil {
		return nil, err
	}
	var others []*server
	for _, other := range s.all {
		if other != from && other.follows(ctx) == 0 {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return nil, errors.New("there is no other primary")
	}
	to = others[choose%len(others)]
	m, err := s.cluster.BeginMove(ctx, "{"+room+"}", to.Redis)
	if err != nil {
		return to, err
	}
	for some := true; some && err == nil; _ = pause.For(ctx, 10*time.Millisecond) {
		some, err = m.Keys(ctx)
	}
	if err != nil {
		m.Abandon(ctx)
		return to, err
	}
	return to, m.Finish(ctx)
}

func (s *store) close() {
	_ = s.rdb.Close()
	s.end()
}
