// Package scratch opens a Redis for the bench and the lab: a given one, where they remove their keys, or their own.
package scratch

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest/launch"
)

const (
	helloTimeout  = 5 * time.Second // timeout of the first request
	removeTimeout = time.Minute
)

// Redis is a single Redis that answered when it was opened.
type Redis struct {
	*redisurl.DB
	URL string // for other processes, where redisurl.Embedded would mean another Redis

	options redis.Options
	server  *launch.Server // nil unless Open started it
	product string         // "" if unknown
}

// Validate returns an error about the flag --redis if Open cannot use the URL.
func Validate(url string) error {
	if url == "" {
		return nil
	}
	r, err := open(url)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	r.Close()
	return nil
}

// Open opens the Redis of a URL of package redisurl. For "" it starts a redis-server without persistence, or
// the embedded Redis if none is installed. It fails if Redis does not answer, or is a Cluster.
func Open(ctx context.Context, url string) (r *Redis, err error) {
	var server *launch.Server
	if url == "" {
		url = redisurl.Embedded
		if _, missing := exec.LookPath("redis-server"); missing == nil {
			if server, err = launch.Start(ctx, launch.Plain()); err != nil {
				return nil, err
			}
			url = server.URL()
		}
	}
	if r, err = open(url); err != nil {
		return nil, err
	}
	r.server = server
	if err = r.greet(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func open(url string) (*Redis, error) {
	db, err := redisurl.Open(url)
	if err != nil {
		return nil, err
	}
	client := db.NewClient()
	defer client.Close() // it never connected
	single, is := client.(*redis.Client)
	if !is {
		return nil, fmt.Errorf("redis is a %s, it must be a single Redis or one behind Sentinels", db)
	}
	return &Redis{DB: db, URL: url, options: *single.Options()}, nil
}

// greet checks that Redis answers, and asks for its version.
func (r *Redis) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	client := r.DB.NewClient()
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%s does not answer: %w", r.DB, err)
	}
	r.product = redisconn.ParseInfo(client.Info(ctx, "server").Val()).Product() // empty for the embedded one
	return nil
}

// NewClient returns a new client with a pool of that many connections. The caller closes it.
func (r *Redis) NewClient(connections int) *redis.Client {
	opts := r.options
	opts.PoolSize = connections
	return redis.NewClient(&opts)
}

// String describes the Redis in a line, without its password.
func (r *Redis) String() string {
	text := r.DB.String()
	if r.product != "" {
		text += ", " + r.product
	}
	if r.server != nil {
		text += ", started for this run"
	}
	return text
}

// Remove removes all keys with text in their names, and nodes and rooms with it from the shared lists. It does
// so even after the end of ctx, within a minute.
func (r *Redis) Remove(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	client := r.NewClient(1)
	defer client.Close()
	err := redisconn.Scan(ctx, client, "*"+text+"*", 0, func(ctx context.Context, keys []string) error {
		if len(keys) == 0 {
			return nil
		}
		return client.Unlink(ctx, keys...).Err()
	})
	return errors.Join(err, unlist(ctx, client, text))
}

// unlist removes names with text in them from the nodes, and from the rooms of the lobby. With the last room it
// removes the lobby's state.
func unlist(ctx context.Context, client *redis.Client, text string) error {
	others := func(name string) bool { return !strings.Contains(name, text) }
	var all []error
	for _, set := range []string{"Nodes", "Lobby:Changed", "Lobby:Gone"} {
		names, err := client.ZRange(ctx, set, 0, -1).Result()
		if names = slices.DeleteFunc(names, others); len(names) > 0 {
			err = client.ZRem(ctx, set, names).Err()
		}
		all = append(all, err)
	}
	rooms, err := client.HKeys(ctx, "Lobby:Rooms").Result()
	if ours := slices.DeleteFunc(slices.Clone(rooms), others); len(ours) > 0 {
		err = client.HDel(ctx, "Lobby:Rooms", ours...).Err()
	}
	if err == nil && !slices.ContainsFunc(rooms, others) {
		err = client.Unlink(ctx, "Lobby:State").Err()
	}
	return errors.Join(append(all, err)...)
}

// Close ends what Open started. Close the clients first.
func (r *Redis) Close() {
	r.DB.Close()
	if r.server != nil {
		_ = r.server.Close()
	}
}
