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

// maxPoll leaves three polls to keep a queue alive, which Redis drops after a minute.
const maxPoll = 15 * time.Second

// maxName is the longest name of a lock, in bytes.
const maxName = 512

// maxNames is how many locks one script takes: these occupy Redis for some 7 ms.
const maxNames = 1000

// Options say how locks are kept. The zero value is ready to use.
type Options struct {
	// Prefix and the lock's name make the key in Redis. It may hold no braces.
	// Empty means [DefaultPrefix].
	Prefix string

	// TTL is how long a hold lasts unless it is extended or released: after
	// that a crashed holder stands in nobody's way. Whole milliseconds. Zero
	// means [DefaultTTL].
	TTL time.Duration

	// Poll is how often a waiting process looks whether the lock is free, if it is not going to be
	// woken: another program has the lock, or wake-ups do not come. More than zero, shorter than Claim, and at
	// most 15 s. Zero means [DefaultPoll], or half of Claim if that is shorter. A process that is going to be
	// woken looks after half of Claim, 125 ms at most, in case the wake-up is lost.
	Poll time.Duration

	// Claim is how long a released lock is kept for the waiter whose turn it is,
	// and so what a waiter that has died costs the others. It travels with the wake-up,
	// so processes may differ in it. If it is shorter than about three round trips, a
	// waiter asks before it goes to work; if it is shorter than one, hand-overs fail, and
	// the lock goes to who asks next. Whole milliseconds, at most TTL. Zero means
	// [DefaultClaim], or twice Poll if that is longer, or TTL if that is shorter.
	Claim time.Duration

	// MaxWaiters is how many calls of one Manager may wait for one lock. Zero
	// means [DefaultMaxWaiters].
	MaxWaiters int

	// Pipelined has requests that are made at the same time share round trips
	// (go-redis' AutoPipeline): with many locks in use at once a multiple of the
	// throughput, for some tens of microseconds more each. A request that is made
	// while only a few others are under way goes out by itself, as without this option.
	//
	// On Redis Cluster each master has a pipeline of its own. Hooks of the
	// ClusterClient see only what goes out by itself or had to be redirected; those
	// that it has put into its masters' clients (OnNewNode) see everything.
	Pipelined bool

	// Load has the server of a key load a script that this server does not know: it was
	// restarted, is another one than before, or was told to forget its scripts. An error of
	// Load ends the request, which was not carried out. Nil sends such scripts as a whole.
	Load func(ctx context.Context, key string, script *redis.Script) error

	// Hub takes the wake-ups, in order with whatever else is subscribed there.
	// It stays the caller's to close. Nil means one of the Manager's own.
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

// longPoll is how long a waiter that is going to be woken pauses between polls, and how often it asks for the lock even
// if another has it: a wake-up counts for a claim from when it last asked, Redis may have lost its position, and drops a
// queue that nobody asks about for a minute (see maxPoll).
func (o Options) longPoll() time.Duration {
	return max(o.Poll, min(o.Claim, DefaultClaim)/2)
}

func (o Options) validate() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"TTL", o.TTL}, {"Claim", o.Claim}} {
		switch {
		case d.value < time.Millisecond:
			return fmt.Errorf("lockmgr: %s is %v, it must be at least 1ms: %w", d.field, d.value, ErrInvalid)
		case d.value%time.Millisecond != 0:
			return fmt.Errorf("lockmgr: %s is %v, Redis counts in whole milliseconds: %w", d.field, d.value, ErrInvalid)
		}
	}
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("lockmgr: Prefix %q holds a brace, which would break the hash tag of the keys: %w", o.Prefix, ErrInvalid)
	case o.Poll < 0:
		return fmt.Errorf("lockmgr: Poll is %v, it must be more than zero: %w", o.Poll, ErrInvalid)
	case o.Poll > maxPoll:
		return fmt.Errorf("lockmgr: Poll is %v, it must not be longer than %v, or Redis forgets the queue between two polls: %w", o.Poll, maxPoll, ErrInvalid)
	case o.Poll >= o.Claim:
		return fmt.Errorf("lockmgr: Poll is %v, it must be shorter than the Claim (%v), or a lock that is handed over is gone before its waiter asks: %w", o.Poll, o.Claim, ErrInvalid)
	case o.Claim > o.TTL:
		return fmt.Errorf("lockmgr: Claim is %v, it must not be longer than the TTL (%v): %w", o.Claim, o.TTL, ErrInvalid)
	case o.MaxWaiters < 0:
		return fmt.Errorf("lockmgr: MaxWaiters is %d, it must be more than zero: %w", o.MaxWaiters, ErrInvalid)
	}
	return nil
}
