// Package redisurl opens the Redis that one string names: a redis://, rediss:// or
// unix:// URL, redis+sentinel://host,…/master, redis+cluster://host,…, or
// "embedded".
package redisurl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/embedded"
)

// Embedded names a Redis inside this process. It keeps nothing when the process
// ends and nobody else can reach it: for trying things out on one machine.
const Embedded = "embedded"

// What a hold can afford by default: its requests, each at most this long, fit
// into the lock's TTL of 3 s. A URL may say otherwise (?read_timeout=…).
const (
	dialTimeout = 2 * time.Second
	ioTimeout   = time.Second
	poolSize    = 64

	// Every request of ours may be sent twice. Once more is enough to get past a
	// connection that died; more would only hide that Redis is away.
	maxRetries = 1
)

// DB is a Redis that clients can be made of.
type DB struct {
	opts     *redis.Options // one of these three is not nil
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
	server   *embedded.Redis // nil unless embedded
}

// Open reads rawURL, and starts the embedded Redis if that is what it says. It
// does not connect. A URL that cannot be used gives an error without its
// password.
//
// Query parameters are those of go-redis' ParseURL (pool_size, read_timeout, …).
func Open(rawURL string) (*DB, error) {
	if rawURL == Embedded {
		server := embedded.Start()
		return &DB{server: server, opts: tuned(server.Options())}, nil
	}
	scheme, _, ok := strings.Cut(rawURL, "://")
	switch base, topology, _ := strings.Cut(scheme, "+"); {
	case base != "redis" && base != "rediss":
	case topology == "sentinel":
		opts, err := openSentinel(rawURL)
		if err != nil {
			return nil, fmt.Errorf("redis: %q: %s", redact(rawURL), cleaned(err, rawURL))
		}
		return &DB{sentinel: opts}, nil
	case topology == "cluster":
		opts, err := openCluster(rawURL)
		if err != nil {
			return nil, fmt.Errorf("redis: %q: %s", redact(rawURL), cleaned(err, rawURL))
		}
		return &DB{cluster: opts}, nil
	}
	if !ok || scheme != "redis" && scheme != "rediss" && scheme != "unix" {
		return nil, fmt.Errorf("redis: %q is neither %q nor a redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// URL", redact(rawURL), Embedded)
	}
	opts, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redis: %q: %s", redact(rawURL), cleaned(err, rawURL))
	}
	return &DB{opts: tuned(opts)}, nil
}

// tuned fills in what the URL left open.
func tuned(o *redis.Options) *redis.Options {
	o.ContextTimeoutEnabled = true
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = ioTimeout
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = ioTimeout
	}
	if o.PoolSize == 0 {
		o.PoolSize = poolSize
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = maxRetries
	}
	o.DialerRetries = 1
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o
}

// NewClient returns a new client with a connection pool of its own.
func (db *DB) NewClient() redis.UniversalClient {
	switch {
	case db.sentinel != nil:
		opts := *db.sentinel
		return redis.NewFailoverClient(&opts)
	case db.cluster != nil:
		opts := *db.cluster
		return redis.NewClusterClient(&opts)
	}
	opts := *db.opts
	return redis.NewClient(&opts)
}

// IsEmbedded reports whether the Redis lives in this process.
func (db *DB) IsEmbedded() bool { return db.server != nil }

// String returns the Redis in words for people, without a password.
func (db *DB) String() string {
	switch {
	case db.server != nil:
		return "embedded Redis"
	case db.sentinel != nil:
		return fmt.Sprintf("Redis %s of the sentinels at %s", db.sentinel.MasterName, strings.Join(db.sentinel.SentinelAddrs, ", "))
	case db.cluster != nil:
		return fmt.Sprintf("Redis Cluster at %s", strings.Join(db.cluster.Addrs, ", "))
	}
	return fmt.Sprintf("Redis at %s", db.opts.Addr)
}

// Close ends the embedded Redis. Clients are closed by those who made them.
func (db *DB) Close() {
	if db.server != nil {
		db.server.Close()
	}
}

// redact returns a URL without its passwords, whatever its form.
func redact(rawURL string) string {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return rawURL
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "…@" + rest[at+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "password") {
		query = "…"
	}
	if query != "" {
		rest += "?" + query
	}
	return scheme + "://" + rest
}

// cleaned returns what err says without a URL that url.Error quotes.
func cleaned(err error, rawURL string) string {
	var parse *url.Error
	if errors.As(err, &parse) {
		err = parse.Err
	}
	return strings.ReplaceAll(err.Error(), rawURL, redact(rawURL))
}
