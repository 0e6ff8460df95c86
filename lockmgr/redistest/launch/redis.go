package launch

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redisconn/pause"
)

// Redis is a redis-server or a Sentinel, with a client to control it.
type Redis struct {
	*Server
	Name  string        // such as "redis-2", "sentinel-1"
	Admin *redis.Client // gives up after one attempt of two seconds
}

// Config configures servers that belong together. The zero value works.
type Config struct {
	Args []string // for each redis-server, in the form of its command line

	// Log returns the writer for the log of the server with that name. Nil discards it, as does a nil Log.
	Log func(name string) io.Writer
}

// StartRedis starts a server as Start does, and makes a client of it. name is for people, and begins its errors.
func StartRedis(ctx context.Context, name string, command Command) (*Redis, error) {
	s, err := Start(ctx, command)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Redis{s, name, redis.NewClient(&redis.Options{
		Addr: s.Addr(), DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: 2 * time.Second, MaxRetries: -1,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}, nil
}

func (c Config) start(ctx context.Context, kind string, i int, command Command) (*Redis, error) {
	name := fmt.Sprintf("%s-%d", kind, i+1)
	if c.Log != nil {
		command.Log = c.Log(name)
	}
	return StartRedis(ctx, name, command)
}

// Close closes the client, kills the server and removes its folder.
func (r *Redis) Close() error {
	_ = r.Admin.Close()
	return r.Server.Close()
}

// Replication returns the server's INFO about its role and replicas.
func (r *Redis) Replication(ctx context.Context) (map[string]string, error) {
	info, err := r.Admin.InfoMap(ctx, "replication").Result()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return info["Replication"], nil
}

func at(servers []*Redis, addr string) (*Redis, error) {
	for _, r := range servers {
		if r.Addr() == addr {
			return r, nil
		}
	}
	return nil, fmt.Errorf("no server of ours is at %q", addr)
}

func addrs(servers []*Redis) (all []string) {
	for _, r := range servers {
		all = append(all, r.Addr())
	}
	return all
}

func closeAll(servers []*Redis) {
	for _, r := range servers {
		_ = r.Close()
	}
}

// Await calls look every 20 ms until it returns nil. When ctx ends, Await returns the last error.
func Await(ctx context.Context, look func(context.Context) error) (last error) {
	for {
		err := look(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if pause.For(ctx, 20*time.Millisecond) != nil {
			return last
		}
	}
}
