// Package redisurl opens the Redis that one string names: "embedded", or a URL.
//
//	redis://[user:password@]host:port[/db]                                rediss:// over TLS
//	unix://[user:password@]/path/to/redis.sock[?db=…]
//	redis+sentinel://[user:password@]host:port[,host:port…]/MASTER[/db]   rediss+sentinel://
//	redis+cluster://[user:password@]host:port[,host:port…]                rediss+cluster://
//
// Behind a ? may follow what go-redis' ParseURL, ParseFailoverURL or ParseClusterURL
// knows (pool_size, dial_timeout, read_timeout, write_timeout, max_retries, …), except
// what has its place in the URL already, and reading from replicas. Beside it:
// sentinel_username and sentinel_password, as the user before the @ is one of Redis;
// and max_redirects, which counts for a Cluster where max_retries does for the others.
// What is special in a user or a password is escaped as in any URL (%40 for @).
//
// Over TLS every server has to prove that it has the address by which it is called:
// in a Cluster and behind Sentinels that is the one they announce.
package redisurl

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redisconn/embedded"
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
	opts     *redis.Options // or one of the two below
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
	server   *embedded.Redis // nil unless embedded
}

// Open reads rawURL, and starts the embedded Redis if that is what it says. It
// does not connect. A URL that cannot be used gives an error that says why, without
// its passwords.
func Open(rawURL string) (*DB, error) {
	if rawURL == Embedded {
		server := embedded.Start()
		return &DB{server: server, opts: tuned(server.Options())}, nil
	}
	db, err := open(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redis: %q: %w", redact(rawURL), err)
	}
	return db, nil
}

func open(rawURL string) (*DB, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, errScheme
	}
	if misplacedAt(rest) {
		return nil, errAt
	}
	base, topology, _ := strings.Cut(scheme, "+")
	switch scheme {
	case "redis", "rediss", "unix":
		o, err := redis.ParseURL(rawURL)
		if err != nil {
			return nil, withoutURL(err)
		}
		return &DB{opts: tuned(o)}, nil
	case "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster":
		p, err := split(base, rest)
		if err != nil {
			return nil, err
		}
		if topology == "cluster" {
			o, err := openCluster(p)
			return &DB{cluster: o}, err
		}
		o, err := openSentinel(p)
		return &DB{sentinel: o}, err
	}
	return nil, errScheme
}

// tuned fills in what the URL left open.
func tuned(o *redis.Options) *redis.Options {
	o.ContextTimeoutEnabled = true
	o.MaxRetries = cmp.Or(o.MaxRetries, maxRetries)
	fill(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolSize, &o.DialerRetries)
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o
}

// fill sets those of a client's options that the URL left open. They have the same
// names in three types.
func fill(dial, read, write *time.Duration, pool, dials *int) {
	*dial = cmp.Or(*dial, dialTimeout)
	*read = cmp.Or(*read, ioTimeout)
	*write = cmp.Or(*write, ioTimeout)
	*pool = cmp.Or(*pool, poolSize)
	*dials = cmp.Or(*dials, 1)
}

// NewClient returns a new client with connection pools of its own: a
// *redis.ClusterClient if the Redis is a Cluster, a *redis.Client otherwise.
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
		return fmt.Sprintf("Redis of Sentinel %s at %s", db.sentinel.MasterName, strings.Join(db.sentinel.SentinelAddrs, ", "))
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
