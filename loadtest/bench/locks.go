package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"roomd/lockmgr"
)

// Settings of all lock contenders, where they can be set.
const (
	holdTTL    = 3 * time.Second
	lockPoll   = 5 * time.Millisecond
	maxVerify  = time.Second
	lostWakeUp = 15 * time.Second // no hold is long, so a lock that was not acquired by then is lost
)

// holder is a client of the lock contenders: it acquires a random lock, and releases it.
type holder struct {
	locker locker
	keys   []string
	owners []atomic.Int64 // holder of each lock, shared by all holders; zero if nobody
	id     int64
	hold   func(context.Context) error // called with the lock held; nil does nothing
	shared int                         // number of holds that overlapped with another
}

func (h *holder) act(ctx context.Context) (err error) {
	i := rand.IntN(len(h.keys))
	release, err := acquire(ctx, h.locker, h.keys[i])
	if err != nil {
		return err
	}
	entered := h.owners[i].CompareAndSwap(0, h.id)
	if h.hold != nil {
		err = h.hold(ctx)
	}
	if left := h.owners[i].CompareAndSwap(h.id, 0); !entered || !left {
		h.shared++
	}
	return errors.Join(err, release())
}

// acquire acquires a lock, and gives up after lostWakeUp. It has no deadline, because some contenders act
// differently near one. That costs all of them the same: half a microsecond and a few allocations.
func acquire(ctx context.Context, l locker, key string) (release func() error, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer time.AfterFunc(lostWakeUp, func() { end(fmt.Errorf("no lock after %v", lostWakeUp)) }).Stop()
	if release, err = l.acquire(ctx, key); err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return release, err
}

// tryLocks measures holds that do nothing. If holders compete, a second and shorter pass holds each lock for a
// round trip, so that two holders at a time are noticed. Only its errors and violations count.
func (c *cell) tryLocks(ctx context.Context) (*Result, error) {
	lockers, closeAll, err := openAll(c, c.who.locker, func(l locker) { l.close() })
	defer closeAll()
	if err != nil {
		return nil, err
	}
	rdb := c.redis.NewClient(c.load.connections())
	defer rdb.Close()
	measured := c.driver()
	m, shared, err := c.hold(ctx, lockers, nil, measured)
	if err != nil || c.load.clients == 1 {
		return newResult(m, Violations{Shared: shared}), err
	}
	shorter := measured
	shorter.duration = min(c.duration, maxVerify)
	verified, more, err := c.hold(ctx, lockers, func(ctx context.Context) error { return rdb.Ping(ctx).Err() }, shorter)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	for i, t := range verified.actors {
		m.actors[i].AddErrors(t)
	}
	return newResult(m, Violations{Shared: shared + more}), nil
}

// hold makes the workload's clients acquire locks, and returns how many holds overlapped.
func (c *cell) hold(ctx context.Context, lockers []locker, work func(context.Context) error,
	d driver) (m *measurement, shared int, err error) {
	keys := c.load.names(c.prefix)
	owners := make([]atomic.Int64, len(keys))
	holders := make([]*holder, c.load.clients)
	for i := range holders {
		holders[i] = &holder{locker: lockers[c.load.node(i)], keys: keys, owners: owners, id: int64(i + 1), hold: work}
	}
	m, err = drive(ctx, d, holders)
	for _, h := range holders {
		shared += h.shared
	}
	return m, shared, err
}

// locker is a lock contender as one server would use it. Both functions are safe for concurrent use.
type locker struct {
	// acquire acquires the lock. The hold does not end with ctx.
	acquire func(ctx context.Context, key string) (release func() error, err error)

	// close is called when all locks are released.
	close func()
}

func lockmgrLocker(pipelined bool) func(target) (locker, error) {
	return func(t target) (locker, error) {
		client := t.client()
		manager, err := lockmgr.New(client, lockmgr.Options{TTL: holdTTL, Poll: lockPoll, Pipelined: pipelined})
		if err != nil {
			_ = client.Close()
			return locker{}, err
		}
		return locker{func(ctx context.Context, key string) (func() error, error) {
			lock, err := manager.Acquire(ctx, key)
			if err != nil {
				return nil, err
			}
			return func() error { return lock.Release(context.Background()) }, nil
		}, func() { manager.Close(); _ = client.Close() }}, nil
	}
}

func openRedislock(t target) (locker, error) {
	client := t.client()
	locks := redislock.New(client)
	return locker{func(ctx context.Context, key string) (func() error, error) {
		lock, err := locks.Obtain(ctx, key, holdTTL,
			&redislock.Options{RetryStrategy: redislock.LinearBackoff(lockPoll)})
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(context.Background()) }, nil
	}, func() { _ = client.Close() }}, nil
}

func openRedsync(t target) (locker, error) {
	client := t.client()
	sync := redsync.New(goredis.NewPool(client))
	return locker{func(ctx context.Context, key string) (func() error, error) {
		// the context limits the tries
		mutex := sync.NewMutex(key, redsync.WithExpiry(holdTTL), redsync.WithRetryDelay(lockPoll),
			redsync.WithTries(math.MaxInt32))
		if err := mutex.LockContext(ctx); err != nil {
			return nil, err
		}
		return func() error {
			ok, err := mutex.UnlockContext(context.Background())
			if err == nil && !ok {
				err = errors.New("redsync: the lock was not ours at its release")
			}
			return err
		}, nil
	}, func() { _ = client.Close() }}, nil
}

func openRueidislock(t target) (l locker, err error) {
	if t.redis.IsEmbedded() {
		return l, errors.New("the embedded Redis has no client tracking")
	}
	o, err := rueidis.ParseURL(t.redis.URL)
	if err != nil {
		return l, err
	}
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   o,
		KeyMajority:    1,    // there is one Redis
		NoLoopTracking: true, // recommended by its README from Redis 7.0.5 on
	})
	if err != nil {
		return l, err
	}
	// WithoutCancel, because rueidislock's holds end with ctx, and no other contender's do.
	return locker{func(ctx context.Context, key string) (func() error, error) {
		life, end := context.WithCancel(context.WithoutCancel(ctx))
		detach := context.AfterFunc(ctx, end)
		_, release, err := locks.WithContext(life, key)
		if !detach() && err == nil {
			release()
			err = context.Cause(ctx)
		}
		if err != nil {
			end()
			return nil, err
		}
		return func() error { release(); end(); return nil }, nil
	}, locks.Close}, nil
}
