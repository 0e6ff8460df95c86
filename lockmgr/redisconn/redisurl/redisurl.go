// Package redisurl opens the Redis that one string names: "embedded", or a URL.
//
//	redis://[user:password@]host:port[/db]                                rediss:// over TLS
//	unix://[user:password@]/path/to/redis.sock[?db=…]
//	redis+sentinel://[user:password@]host:port[,host:port…]/MASTER[/db]   rediss+sentinel://
//	redis+cluster://[user:password@]host:port[,host:port…]                rediss+cluster://
//
// A ? may follow, with the parameters of go-redis' ParseURL, ParseFailoverURL or ParseClusterURL (pool_size,
// dial_timeout, read_timeout, write_timeout, max_retries, …), except those with another place in the URL, and those
// for reading from replicas. The user before the @ is Redis'; the Sentinels' user is in sentinel_username and
// sentinel_password. A Cluster has max_redirects in place of max_retries. Special characters in a user or a password
// are escaped as in any URL (%40 for @).
//
// go-redis writes lines such as "pool.go: failed to dial" to standard error. Its logger is one for the whole process,
// so this package leaves it alone. A program that gets the same as errors can silence it:
//
//	redis.SetLogger(&logging.VoidLogger{}) // of github.com/redis/go-redis/v9 and its package logging
//
// Over TLS each server's certificate must name the address that the client uses: in a Cluster and behind Sentinels,
// the address that they announce.
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

// Embedded names a Redis inside this process, for trying things out on one machine. It ends with the process, and no
// other process can reach it.
const Embedded = "embedded"

// Defaults. If each request of a hold takes that long, they still fit into the lock's TTL of 3 s.
const (
	dialTimeout = 2 * time.Second
	ioTimeout   = time.Second
	poolSize    = 64

	// Every request may be sent twice. One retry suffices after a dead connection; more would only hide that Redis is
	// away.
	maxRetries = 1
)

// DB is the Redis that a URL names. It makes clients.
type DB struct {
	opts     *redis.Options // of a single server; nil if sentinel or cluster is set
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
	server   *embedded.Redis // nil unless embedded
}

// Open reads rawURL. It does not connect, but starts the embedded Redis if rawURL names that. Its error contains no
// password.
func Open(rawURL string) (*DB, error) { return OpenWith(rawURL, Options{}) }

// OpenWith is Open with Options. The error wraps [ErrPassword], [ErrSentinelPassword], [ErrNoTLS] or [ErrDial] if
// opts contradict the URL.
func OpenWith(rawURL string, opts Options) (*DB, error) {
	if rawURL == Embedded {
		if err := opts.refuseEmbedded(); err != nil {
			return nil, err
		}
		server := embedded.Start()
		return &DB{server: server, opts: tuned(server.Options())}, nil
	}
	db, err := open(rawURL)
	if err == nil {
		err = db.add(opts)
	}
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
	if scheme != "unix" && rest != "" && !strings.Contains(rest, "@") && !isAddresses(rest) {
		return nil, errURL // it may be a password whose @ was forgotten
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

func tuned(o *redis.Options) *redis.Options {
	o.ContextTimeoutEnabled = true
	o.MaxRetries = cmp.Or(o.MaxRetries, maxRetries)
	fill(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolSize, &o.DialerRetries)
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o
}

// fill sets the defaults of unset options that three types share.
func fill(dial, read, write *time.Duration, pool, dials *int) {
	*dial = cmp.Or(*dial, dialTimeout)
	*read = cmp.Or(*read, ioTimeout)
	*write = cmp.Or(*write, ioTimeout)
	*pool = cmp.Or(*pool, poolSize)
	*dials = cmp.Or(*dials, 1)
}

// NewClient returns a new client with its own connection pools: a *redis.ClusterClient if the
// Redis is a Cluster, a *redis.Client otherwise. The caller closes it.
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

// String describes the Redis for people, without a password.
func (db *DB) String() string {
	switch {
	case db.server != nil:
		return "embedded Redis"
	case db.sentinel != nil:
		return fmt.Sprintf("Redis of Sentinel %s at %s", db.sentinel.MasterName, strings.Join(db.sentinel.SentinelAddrs, ", "))
	case db.cluster != nil:
		return fmt.Sprintf("Redis Cluster at %s", strings.Join(db.cluster.Addrs, ", "))
	}
	if db.opts.DB != 0 {
		return fmt.Sprintf("Redis at %s, database %d", db.opts.Addr, db.opts.DB)
	}
	return fmt.Sprintf("Redis at %s", db.opts.Addr)
}

// Close ends the embedded Redis. It closes no clients.
func (db *DB) Close() {
	if db.server != nil {
		db.server.Close()
	}
}
