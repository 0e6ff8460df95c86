package lockmgr

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pubsub"
)

// Defaults of [Options].
const (
	DefaultPrefix     = "Lock:"
	DefaultTTL        = 3 * time.Second
	DefaultPoll       = 5 * time.Millisecond
	DefaultClaim      = 250 * time.Millisecond
	DefaultMaxWaiters = 10_000
)

// maxPoll fits three polls into the minute after which Redis drops a queue that nobody asks about.
const maxPoll = 15 * time.Second

const maxName = 512

// maxNames is the largest number of locks for one script. They occupy Redis for some 7 ms.
const maxNames = 1000

// Options say how locks are kept. The zero value is ready to use.
type Options struct {
	// Prefix and the lock's name make the key in Redis. Prefix must not contain braces. Empty means [DefaultPrefix].
	Prefix string

	// TTL is how long a hold lasts unless it is extended or released. After that, a crashed holder no longer
	// blocks others. Whole milliseconds. Zero means [DefaultTTL].
	TTL time.Duration

	// Poll is how often a waiting process checks whether the lock is free, if no wake-up will come: because
	// another program has the lock, or wake-ups do not arrive. More than zero, shorter than Claim, and at most
	// 15 s. Zero means [DefaultPoll], or half of Claim if that is shorter. In case a wake-up is lost, a process
	// that expects it checks after half of Claim, or 125 ms if that is shorter, but not before Poll has passed.
	Poll time.Duration

	// Claim is how long a released lock is reserved for the next waiter. If that waiter has died, the others
	// wait this much longer. Each wake-up contains the claim, so processes may differ in it. With a
	// Claim of less than about three round trips, a waiter asks before it goes to work. With less than one,
	// hand-overs fail, and the next process to ask gets the lock. Whole milliseconds, at most TTL. Zero means
	// the longer of [DefaultClaim] and twice Poll, but not more than TTL.
	Claim time.Duration

	// MaxWaiters is how many calls of one Manager may wait for one lock. Zero means [DefaultMaxWaiters].
	MaxWaiters int

	// Pipelined lets simultaneous requests share round trips (go-redis' AutoPipeline). With many locks in use
	// at once that multiplies the throughput; each request takes some tens of microseconds longer. While only a
	// few requests are under way, each is sent by itself, as without this option.
	//
	// On Redis Cluster each master has a pipeline of its own. Hooks of the ClusterClient see only requests that
	// are sent by themselves or were redirected. Hooks that the ClusterClient adds to its masters' clients
	// (OnNewNode) see all.
	Pipelined bool

	// Load loads a script into the server of a key. It is called when that server does not know the script:
	// after a restart or a failover, or when its scripts were flushed. An error of Load ends the request, which
	// was not executed. If Load is nil, the Manager sends the whole script instead.
	Load func(ctx context.Context, key string, script *redis.Script) error

	// Hub receives the wake-ups, in order with its other subscriptions. The caller closes it. Nil means that
	// the Manager has its own.
	Hub *pubsub.Hub
}

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.Claim = cmp.Or(o.Claim, min(max(DefaultClaim, 2*o.Poll), o.TTL))
	o.Poll = cmp.Or(o.Poll, min(DefaultPoll, o.Claim/2))
	o.MaxWaiters = cmp.Or(o.MaxWaiters, DefaultMaxWaiters)
	return o
}

// longPoll is how long a waiter that expects a wake-up pauses between polls. It is also how often such a waiter asks
// for the lock although another holds it, for three reasons: the claim in a wake-up counts from the last request;
// Redis may have lost the waiter's position; and Redis drops a queue that nobody asks about (see maxPoll).
func (o Options) longPoll() time.Duration {
	return max(o.Poll, min(o.Claim, DefaultClaim)/2)
}

func (o Options) validate() error {
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return invalid("Prefix %q holds a brace, which would break the hash tag of the keys", o.Prefix)
	case o.Poll < 0:
		return invalid("Poll is %v, it must be more than zero", o.Poll)
	case o.Poll > maxPoll:
		return invalid("Poll is %v, it must not be longer than %v, or Redis forgets the queue between two polls",
			o.Poll, maxPoll)
	case o.Poll >= o.Claim && o.Claim >= time.Millisecond:
		return invalid("Poll is %v, it must be shorter than the Claim (%v), "+
			"or a lock that is handed over is gone before its waiter asks", o.Poll, o.Claim)
	case o.Claim > o.TTL && o.TTL >= time.Millisecond:
		return invalid("Claim is %v, it must not be longer than the TTL (%v)", o.Claim, o.TTL)
	case o.MaxWaiters < 0:
		return invalid("MaxWaiters is %d, it must be more than zero", o.MaxWaiters)
	}
	return cmp.Or(wholeMilliseconds("TTL", o.TTL), wholeMilliseconds("Claim", o.Claim))
}

// invalid returns an ErrInvalid with that message.
func invalid(format string, args ...any) error {
	return fmt.Errorf("lockmgr: %s: %w", fmt.Sprintf(format, args...), ErrInvalid)
}

// wholeMilliseconds returns an ErrInvalid that names the field, unless d is one whole millisecond or several.
func wholeMilliseconds(field string, d time.Duration) error {
	if d < time.Millisecond || d%time.Millisecond != 0 {
		return invalid("%s is %v, it must be at least 1ms, in whole milliseconds", field, d)
	}
	return nil
}
