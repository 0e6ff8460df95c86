// Package redisserver gives the bench and the lab a Redis to work on: the one at a
// given URL, or a redis-server of their own for as long as they run, or, where none is
// installed, the embedded one. Package launch starts servers and knows no other kind;
// this one also names the Redis in a report and removes a run's keys from it.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest/launch"
)

const (
	helloTimeout  = 5 * time.Second // for the first question to Redis
	removeTimeout = time.Minute
	removeChunk   = 1000 // keys that Redis looks at, or removes, at a time
)

// Validate returns an error, which begins with "redis", if Open cannot use the URL.
func Validate(url string) error {
	if url == "" || url == redisurl.Embedded {
		return nil
	}
	db, err := redisurl.Open(url)
	if err != nil {
		return err
	}
	client := db.NewClient()
	defer client.Close() // it never connected
	if _, single := client.(*redis.Client); !single {
		return fmt.Errorf("redis is a %s, it must be a single Redis or one behind Sentinels", db)
	}
	return nil
}

// Redis is a Redis that answered when it was opened.
type Redis struct {
	url     string
	db      *redisurl.DB
	process *launch.Server // nil unless Open started it
	version string         // empty if Redis does not say
}

// Open returns the Redis of that URL, in the syntax of package redisurl. For an
// empty one it starts a redis-server on a free loopback port, without
// persistence and in a temporary folder, or the embedded Redis if there is no
// redis-server to start.
//
// It fails if Redis does not answer, or is a Cluster.
func Open(ctx context.Context, url string) (*Redis, error) {
	if err := Validate(url); err != nil {
		return nil, err
	}
	r := &Redis{url: url}
	if url == "" {
		r.url = redisurl.Embedded
		if _, err := exec.LookPath("redis-server"); err == nil {
			if r.process, err = launch.Start(ctx, launch.Plain()); err != nil {
				return nil, err
			}
			r.url = r.process.URL()
		}
	}
	var err error
	if r.db, err = redisurl.Open(r.url); err == nil {
		err = r.greet(ctx)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// greet checks that Redis answers, and asks for its version.
func (r *Redis) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	client := r.db.NewClient()
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%s does not answer: %w", r.db, err)
	}
	// The embedded Redis has no such section.
	if info, err := client.InfoMap(ctx, "server").Result(); err == nil {
		r.version = info["Server"]["redis_version"]
	}
	return nil
}

// DB returns the Redis in the form that nodes need.
func (r *Redis) DB() *redisurl.DB { return r.db }

// URL returns where another process finds the Redis: the URL that Open got, or that of the server
// which it started. An embedded Redis is not to be found; "embedded" means a new one there.
func (r *Redis) URL() string { return r.url }

// NewClient returns a new client with a pool of that many connections. The caller
// closes it.
func (r *Redis) NewClient(connections int) *redis.Client {
	model := r.db.NewClient().(*redis.Client)
	defer model.Close() // it never connected
	opts := *model.Options()
	opts.PoolSize = connections
	return redis.NewClient(&opts)
}

// Remove removes all keys with text in their names, and the nodes and rooms with it from the
// lists of all. It does so also when ctx has ended, within a minute.
func (r *Redis) Remove(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	client := r.NewClient(1)
	defer client.Close()
	for cursor := uint64(0); ; {
		keys, next, err := client.Scan(ctx, cursor, "*"+text+"*", removeChunk).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := client.Unlink(ctx, keys...).Err(); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return errors.Join(removeNodes(ctx, client, text), removeListed(ctx, client, text))
		}
	}
}

func removeNodes(ctx context.Context, client *redis.Client, text string) error {
	nodes, err := client.ZRange(ctx, "Nodes", 0, -1).Result()
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if strings.Contains(node, text) {
			if err := client.ZRem(ctx, "Nodes", node).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// String describes the Redis in a line, without its password.
func (r *Redis) String() string {
	text := r.db.String()
	if r.version != "" {
		text += ", version " + r.version
	}
	switch {
	case r.process != nil:
		text += ", started for this run"
	case r.db.IsEmbedded():
		text += " (miniredis, inside this process)"
	}
	return text
}

// Close ends what Open started. Close the clients first.
func (r *Redis) Close() {
	if r.db != nil {
		r.db.Close()
	}
	if r.process != nil {
		_ = r.process.Close()
	}
}

// removeListed removes rooms from the index of the lobby, and that, where nothing is left.
func removeListed(ctx context.Context, client *redis.Client, text string) error {
	rooms, err := client.HKeys(ctx, "Lobby:Rooms").Result()
	if err != nil {
		return err
	}
	left := len(rooms)
	for _, id := range rooms {
		if !strings.Contains(id, text) {
			continue
		}
		left--
		if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.HDel(ctx, "Lobby:Rooms", id)
			p.ZRem(ctx, "Lobby:Changed", id)
			p.ZRem(ctx, "Lobby:Gone", id)
			return nil
		}); err != nil {
			return err
		}
	}
	if left == 0 {
		return client.Unlink(ctx, "Lobby:State").Err()
	}
	return nil
}
