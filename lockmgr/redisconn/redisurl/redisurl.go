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
// go-redis writes lines such as "pool.go: failed to dial" to standard error. The whole process has one logger of
// go-redis, so this package leaves it alone. A program that gets the same failures as errors can silence it:
//
//	redis.SetLogger(&logging.VoidLogger{}) // of github.com/redis/go-redis/v9 and its package logging
//
// Over TLS each server's certificate must name the address that the client uses: in a Cluster and behind Sentinels,
// the address that they announce.
package redisurl

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redisconn/embedded"
)

// Embedded names a Redis inside this process, for trying things out on one machine. It ends with the process, and no
// other process can reach it.
const Embedded = "embedded"

// Defaults. Even if each request of a hold takes ioTimeout, they fit into the lock's TTL of 3 s.
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
		return (&DB{server: server, opts: server.Options()}).tuned(), nil
	}
	db, err := open(rawURL)
	if err == nil {
		err = db.tuned().add(opts)
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
		return &DB{opts: o}, nil
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

// shared has the options that all kinds of clients have.
type shared struct {
	addresses []string // in the URL
	password  *string
	secure    *tls.Config // nil without TLS
	dialer    *func(ctx context.Context, network, addr string) (net.Conn, error)

	contexts          *bool
	dial, read, write *time.Duration
	pool, dials       *int
}

func (db *DB) shared() shared {
	switch {
	case db.sentinel != nil:
		o := db.sentinel
		return shared{o.SentinelAddrs, &o.Password, o.TLSConfig, &o.Dialer, &o.ContextTimeoutEnabled,
			&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolSize, &o.DialerRetries}
	case db.cluster != nil:
		o := db.cluster
		return shared{o.Addrs, &o.Password, o.TLSConfig, &o.Dialer, &o.ContextTimeoutEnabled,
			&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolSize, &o.DialerRetries}
	}
	o := db.opts
	return shared{[]string{o.Addr}, &o.Password, o.TLSConfig, &o.Dialer, &o.ContextTimeoutEnabled,
		&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolSize, &o.DialerRetries}
}

// tuned sets the options that no URL has, and defaults for the options that this URL lacks.
func (db *DB) tuned() *DB {
	s := db.shared()
	*s.contexts = true
	*s.dial, *s.read, *s.write = cmp.Or(*s.dial, dialTimeout), cmp.Or(*s.read, ioTimeout), cmp.Or(*s.write, ioTimeout)
	*s.pool, *s.dials = cmp.Or(*s.pool, poolSize), cmp.Or(*s.dials, 1)
	switch off := (&maintnotifications.Config{Mode: maintnotifications.ModeDisabled}); {
	case db.sentinel != nil:
		db.sentinel.MaxRetries = cmp.Or(db.sentinel.MaxRetries, maxRetries)
	case db.cluster != nil:
		db.cluster.MaxRedirects = cmp.Or(db.cluster.MaxRedirects, maxRedirects)
		db.cluster.ClusterStateReloadInterval = reloadInterval
		db.cluster.MaintNotificationsConfig = off
	default:
		db.opts.MaxRetries = cmp.Or(db.opts.MaxRetries, maxRetries)
		db.opts.MaintNotificationsConfig = off
	}
	return db
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
	addresses := strings.Join(db.shared().addresses, ", ")
	switch {
	case db.server != nil:
		return "embedded Redis"
	case db.sentinel != nil:
		return fmt.Sprintf("Redis of Sentinel %s at %s", db.sentinel.MasterName, addresses)
	case db.cluster != nil:
		return "Redis Cluster at " + addresses
	case db.opts.DB != 0:
		return fmt.Sprintf("Redis at %s, database %d", addresses, db.opts.DB)
	}
	return "Redis at " + addresses
}

// Close ends the embedded Redis. It closes no clients.
func (db *DB) Close() {
	if db.server != nil {
		db.server.Close()
	}
}
