// Package redisconn adds to go-redis: scripts that survive a moving slot of a Redis Cluster, the search for a new
// master, and shared timeouts. Package redisurl makes a client from a URL, embedded is a Redis inside the process,
// and pubsub shares a connection between subscriptions.
package redisconn

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
)

// movingPause is the pause before a request is sent again while a slot moves.
const movingPause = 5 * time.Millisecond

// Run runs a script on keys of one slot. While that slot moves from one master of a Redis Cluster to another,
// Run retries until the keys are together, or ctx ends.
func Run(ctx context.Context, client redis.UniversalClient, script *redis.Script, keys []string,
	args ...any) (cmd *redis.Cmd) {
	_ = UntilMoved(ctx, func() error {
		cmd = script.Run(ctx, client, keys, args...)
		SeekMaster(ctx, client, cmd.Err())
		return cmd.Err()
	})
	return cmd
}

// UntilMoved calls send, and repeats that until ctx ends while send fails because a slot moves: Redis refuses a
// request whose keys are on two servers (TRYAGAIN), or redirects the client until it gives up (ASK, MOVED).
// UntilMoved returns the error of the last call.
func UntilMoved(ctx context.Context, send func() error) error {
	for {
		err := send()
		if !isSlotMoving(err) || pause.For(ctx, movingPause) != nil {
			return err
		}
	}
}

// maxLoads limits how often a script is loaded for one request. Once is usual; more only happens where somebody
// flushes the server's scripts again and again.
const maxLoads = 10

// UntilKnown calls send, which sends a script by its hash. While the server does not know the script, UntilKnown
// calls load and send again, ten times at most. It returns the error of the last send, or the first error of load.
func UntilKnown(send, load func() error) error {
	for loads := 0; ; loads++ {
		err := send()
		if err == nil || loads == maxLoads || !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return err
		}
		if err = load(); err != nil {
			return err
		}
	}
}

// SeekMaster makes the client of a Cluster ask for the owners of slots, if err says that a server did not
// answer or is the wrong one: its replica may be the master now. By itself a client asks only at intervals.
// SeekMaster reports whether it made the client ask.
func SeekMaster(ctx context.Context, client redis.UniversalClient, err error) bool {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok || Answered(err) && !isSlotMoving(err) {
		return false
	}
	cluster.ReloadState(ctx)
	return true
}

// EachMaster calls f for the server of a client, or concurrently for all masters of a Cluster. It returns the
// first error of f.
func EachMaster(ctx context.Context, client redis.UniversalClient,
	f func(ctx context.Context, master redis.UniversalClient) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			return f(ctx, master)
		})
	}
	return f(ctx, client)
}

// scanCount is how many keys a server checks for one page of [Scan].
const scanCount = 1000

// Scan visits every key of a Redis, or of all masters of a Cluster concurrently: about a second for a million. It
// calls page with the keys that match a pattern of SCAN, one call at a time. A page may be empty, and a key may come
// twice. After each page of a server, Scan pauses for rests times the page's duration. It returns the first error of
// page, Redis or ctx.
func Scan(ctx context.Context, client redis.UniversalClient, pattern string, rests int,
	page func(ctx context.Context, keys []string) error) error {
	var mu sync.Mutex // locked while page runs
	return EachMaster(ctx, client, func(ctx context.Context, master redis.UniversalClient) error {
		for cursor := uint64(0); ; {
			began := time.Now()
			keys, next, err := master.Scan(ctx, cursor, pattern, scanCount).Result()
			if err == nil {
				mu.Lock()
				err = page(ctx, keys)
				mu.Unlock()
			}
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
			if rests > 0 && pause.For(ctx, time.Duration(rests)*time.Since(began)) != nil {
				return ctx.Err()
			}
		}
	})
}

// MasterOf returns the address of the Cluster's master that owns a key. It is "" without a Cluster, or if the
// master is unknown.
func MasterOf(ctx context.Context, client redis.UniversalClient, key string) string {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// Answered reports whether Redis has answered a request that ended with err.
func Answered(err error) bool {
	if err == nil {
		return true
	}
	_, answered := errors.AsType[redis.Error](err)
	return answered
}

// NotAllowed reports whether Redis refused a request because the user lacks the right, or because the server
// does not know the command, which may be renamed.
func NotAllowed(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "unknown command")
}

// Once is a command that the client sends only once.
type Once struct{ redis.Cmder }

// NoRetry implements go-redis' interface.
func (Once) NoRetry() bool { return true }

func isSlotMoving(err error) bool {
	if err == nil {
		return false
	}
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsTryAgainError(err)
}

// SharedTimeout makes contexts that end after some time. Calls within an eighth of that time share a context,
// because a timer and a channel for each request would cost as much as the rest of the request. A SharedTimeout
// is safe for concurrent use.
type SharedTimeout struct {
	life  context.Context
	lasts time.Duration

	mu    sync.Mutex
	ctx   context.Context // guarded by mu: the latest one
	until time.Time       // guarded by mu: until then calls get ctx
}

// NewSharedTimeout returns a SharedTimeout. Its contexts end with life, or between seven and eight eighths of
// lasts after the call that returned them.
func NewSharedTimeout(life context.Context, lasts time.Duration) *SharedTimeout {
	return &SharedTimeout{life: life, lasts: lasts}
}

// Context returns a context that ends as NewSharedTimeout says, with context.DeadlineExceeded unless life ended it.
func (t *SharedTimeout) Context() context.Context { return t.ContextAt(time.Now()) }

// ContextAt is like Context, for a caller that has just read the clock.
func (t *SharedTimeout) ContextAt(now time.Time) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil || now.After(t.until) {
		ctx, cancel := context.WithTimeout(t.life, t.lasts)
		context.AfterFunc(ctx, cancel) // cancelled only at its end, because others share it
		t.ctx, t.until = ctx, now.Add(t.lasts/8)
	}
	return t.ctx
}
