// Package redisserver gives a command a Redis to work on: the one that it was
// told, or a redis-server of its own for as long as it runs, or, where none is
// installed, the embedded one.
package redisserver

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest/launch"
)

// helloTimeout bounds the first question to Redis.
const helloTimeout = 5 * time.Second

// Redis is a Redis that answered when it was opened.
type Redis struct {
	url     string
	db      *redisurl.DB
	process *launch.Server // nil unless it is one of our own
	version string         // empty if it does not say
}

// Open returns the Redis of that URL, in the syntax of package redisurl. For an
// empty one it starts a redis-server on a free loopback port, without
// persistence and in a temporary folder, or the embedded Redis if there is no
// redis-server to start.
//
// It fails if Redis does not answer.
func Open(ctx context.Context, url string) (*Redis, error) {
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

// greet asks Redis whether it is there, and which it is.
func (r *Redis) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	client := r.db.NewClient()
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%s does not answer: %w", r.db, err)
	}
	// The embedded one has no such section.
	if info, err := client.InfoMap(ctx, "server").Result(); err == nil {
		r.version = info["Server"]["redis_version"]
	}
	return nil
}

// URL returns what a command would be told to use the same Redis, which only for
// one outside this process leads there.
func (r *Redis) URL() string { return r.url }

// DB returns the Redis as nodes take it.
func (r *Redis) DB() *redisurl.DB { return r.db }

// Own reports whether nobody else uses the Redis: it was started by Open and
// goes with Close.
func (r *Redis) Own() bool { return r.process != nil || r.db.IsEmbedded() }

// NewClient returns a new client with a pool of that many connections, which is
// the caller's to close.
func (r *Redis) NewClient(connections int) *redis.Client {
	model := r.db.NewClient().(*redis.Client)
	defer model.Close() // it has not connected
	opts := *model.Options()
	opts.PoolSize = connections
	return redis.NewClient(&opts)
}

// String returns the Redis in a line for people, without a password.
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

// Close ends what Open has started. Clients have to be closed before.
func (r *Redis) Close() {
	if r.db != nil {
		r.db.Close()
	}
	if r.process != nil {
		_ = r.process.Close()
	}
}
