package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// What all contenders have in common, as far as they can be told.
const (
	holdTTL    = 3 * time.Second
	retryDelay = 5 * time.Millisecond
)

// patience is how long one acquire may take. Nobody holds a lock for long: one that is
// not had by then is lost, such as by a wake-up that never came.
const patience = 10 * time.Second

// locks is a contender as one process uses it. A hold does not end with the
// context that it was acquired with.
type locks interface {
	Acquire(ctx context.Context, key string) (release func(), err error)
	Close()
}

// acquire takes a lock, and gives up after patience. It does so without a deadline, near
// which some contenders act otherwise. It costs all of them the same: half a microsecond
// and a few allocations.
func acquire(ctx context.Context, l locks, key string) (release func(), err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer time.AfterFunc(patience, func() { end(fmt.Errorf("no lock after %v", patience)) }).Stop()
	if release, err = l.Acquire(ctx, key); err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return release, err
}

// contender is one way to take locks in Redis. What goes wrong at a release is
// added to the faults.
type contender struct {
	name string
	open func(target, *faults) (locks, error)
}

func (c contender) String() string { return c.name }

// contenders begins with what the others are compared with.
var contenders = []contender{
	{reference, openLockmgr},
	{"lockmgr+ap", openPipelined},
	{"redislock", openRedislock},
	{"redsync", openRedsync},
	{"rueidislock", openRueidislock},
}

const reference = "lockmgr"

// target is the Redis that a contender uses.
type target struct {
	url         string
	connections int // as many as goroutines, so that nobody waits for one
}

// client returns the go-redis client that contenders share the settings of.
func (t target) client() (*redis.Client, error) {
	o, err := redis.ParseURL(t.url)
	if err != nil {
		return nil, err
	}
	o.PoolSize = t.connections
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}

// faults counts errors that have no business in a benchmark. The zero value is
// ready to use, and safe for concurrent use.
type faults struct {
	mu    sync.Mutex
	n     int64  // guarded by mu
	first string // guarded by mu
}

func (f *faults) add(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; f.n == 1 {
		f.first = err.Error()
	}
}

func (f *faults) read() (n int64, first string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n, f.first
}
