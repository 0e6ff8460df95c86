package cachefill

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// stepClock changes an entry as a step of the server's clock would.
func stepClock(t *testing.T, client *redis.Client, e entry, step time.Duration) {
	t.Helper()
	for _, key := range []string{e.value, e.failure} {
		if n, err := client.Exists(t.Context(), key).Result(); err != nil || n == 0 {
			continue
		}
		at, err := client.HGet(t.Context(), key, "at").Int64()
		redistest.OK(t, err)
		client.HSet(t.Context(), key, "at", at-step.Microseconds())
		client.PExpire(t.Context(), key, client.PTTL(t.Context(), key).Val()-step)
	}
}

// The server's clock steps, and entries are loaded sooner, not kept longer.
func TestTheServersClockSteps(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"forward, past fresh": time.Minute,
		"forward, past stale": 2 * time.Minute,
		"back":                -time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, 2, Options{Fresh: time.Minute, Stale: time.Minute}, func(t *testing.T, all []*Cache, client *redis.Client) {
				e, _ := all[0].redis.entry("k")
				var calls atomic.Int32
				want(t, all[0], loader(&calls, 0), "value 1")
				time.Sleep(time.Second)
				stepClock(t, client, e, step)
				redistest.OK(t, redistest.Err(all[1].Get(t.Context(), "k", loader(&calls, 0))))
				synctest.Wait()
				want(t, all[0], mustNotLoad, "value 2")
			})
		})
	}
}

// A failure from the future, after a step of the clock, reaches nobody and delays no
// refresh.
func TestTheClockStepsBackAfterAFailure(t *testing.T) {
	fail := broken(errOnFire)
	virtually(t, 3, Options{Fresh: time.Minute, Stale: time.Hour}, func(t *testing.T, all []*Cache, client *redis.Client) {
		e, _ := all[0].redis.entry("k")
		var calls atomic.Int32
		want(t, all[0], loader(&calls, 0), "value 1")
		time.Sleep(time.Minute)
		want(t, all[0], fail, "value 1")
		synctest.Wait()
		stepClock(t, client, e, -time.Minute)
		client.HSet(t.Context(), e.value, "at", time.Now().Add(-time.Minute).UnixMicro())
		want(t, all[1], loader(&calls, 0), "value 1")
		synctest.Wait()
		want(t, all[1], mustNotLoad, "value 2")
	})
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		slow := redistest.MiniClient(t, r)
		first, second, third := newNode(t, slow, Options{}), newNode(t, client, Options{}),
			newNode(t, redistest.MiniClient(t, r), Options{})
		e, _ := first.redis.entry("k")
		fails(t, second, fail, errOnFire, "")
		// It looks while that is known. The clock steps while it waits for another.
		var wg sync.WaitGroup
		wg.Go(func() { want(t, third, loader(new(atomic.Int32), time.Second), "value 1") })
		time.Sleep(time.Millisecond)
		time.AfterFunc(500*time.Millisecond, func() {
			stepClock(t, client, e, -time.Hour)
			client.Del(t.Context(), first.locks.Key(e.lock)) // and the other loses its lock
		})
		want(t, first, loads(), "value 1")
		wg.Wait()
	})
}

// Nodes with different options share a cache: each accepts values of the age that its own
// options allow.
func TestOptionsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		slow := newNode(t, redistest.MiniClient(t, r), Options{Fresh: time.Minute, Stale: time.Hour})
		quick := newNode(t, client, Options{Fresh: 10 * time.Second})
		long := newNode(t, redistest.MiniClient(t, r), Options{Fresh: time.Hour})
		var calls atomic.Int32
		load := loader(&calls, 0)
		want(t, slow, load, "value 1")
		want(t, quick, load, "value 1")
		time.Sleep(10 * time.Second)
		want(t, slow, load, "value 1")
		want(t, long, load, "value 1")
		want(t, quick, load, "value 2") // which goes after 10 s
		want(t, slow, load, "value 2")
		time.Sleep(10 * time.Second)
		want(t, slow, load, "value 3")
		time.Sleep(30 * time.Minute)
		want(t, long, load, "value 3")
		want(t, slow, load, "value 3")
		synctest.Wait()
		want(t, long, load, "value 4")
	})
	// A value that expires before the others poll is loaded again, by one of them at a
	// time, and is no error.
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		short := newNode(t, client, Options{Fresh: 20 * time.Millisecond, Poll: 10 * time.Millisecond})
		var wg sync.WaitGroup
		var now, calls atomic.Int32
		load := func(context.Context) ([]byte, error) {
			redistest.ErrorIf(t, now.Add(1) > 1, "two loads at a time")
			defer now.Add(-1)
			calls.Add(1)
			time.Sleep(time.Second)
			return []byte("value"), nil
		}
		wg.Go(func() { want(t, short, load, "value") })
		time.Sleep(time.Millisecond)
		for range 2 {
			c := newNode(t, redistest.MiniClient(t, r), Options{})
			wg.Go(func() { want(t, c, load, "value") })
		}
		wg.Wait()
		n := calls.Load()
		redistest.ErrorIf(t, n > 2, "%d loads", n)
	})
}

// A loader that resumes after it lost its lock changes nothing.
func TestStalledLoaderIsRefused(t *testing.T) {
	for _, newer := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, client := redistest.Mini(t)
			var told atomic.Int32
			stalled := newNode(t, redistest.MiniClient(t, r), Options{Load: time.Hour, Failed: func(_ string, err error) {
				redistest.ErrorIs(t, "told", err, lockmgr.ErrLost)
				told.Add(1)
			}})
			other := newNode(t, client, Options{})
			e, _ := stalled.redis.entry("k")
			expected := "old"
			got, err := stalled.Get(t.Context(), "k", func(context.Context) ([]byte, error) {
				client.Del(t.Context(), stalled.locks.Key(e.lock)) // its time is over, and it does not know yet
				if newer {
					want(t, other, loads(), "value 1")
					expected = "value 1"
				}
				return []byte("old"), nil
			})
			redistest.ErrorIf(t, err != nil || string(got) != expected, "%q, %v; want %q", got, err, expected)
			redistest.ErrorIf(t, told.Load() != 1, "told %d times", told.Load())
			stored := client.HGet(t.Context(), "Cache:k", "value").Val()
			redistest.ErrorIf(t, newer && stored != "value 1" || !newer && stored != "", "the entry holds %q", stored)
		})
	}
}

// The context of a loader that loses its lock ends, and its callers do not wait for it.
func TestLoaderLosesItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		cut := redistest.MiniClient(t, r)
		c := newNode(t, cut, Options{Wait: time.Minute})
		away := awayWhile(cut, errors.New("no route to host"))
		release := make(chan struct{})
		start := time.Now()
		_, err := c.Get(t.Context(), "k", func(ctx context.Context) ([]byte, error) {
			away.Store(true)
			<-ctx.Done()
			redistest.ErrorIf(t, !errors.Is(context.Cause(ctx), lockmgr.ErrUnreachable),
				"cancelled by %v", context.Cause(ctx))
			<-release
			return []byte("too late"), nil
		})
		redistest.ErrorIf(t, !errors.Is(err, lockmgr.ErrUnreachable) || time.Since(start) > lockmgr.DefaultWaitTTL,
			"%v after %v", err, time.Since(start))
		want(t, newNode(t, client, Options{}), loads(), "value 1")
		away.Store(false)
		close(release)
		c.Close()
		redistest.Equal(t, "the entry holds", client.HGet(t.Context(), "Cache:k", "value").Val(), "value 1")
	})
}

// The request that ends a load may be sent twice, as when its reply was lost. Once somebody
// else holds the lock it changes nothing.
func TestFinishSentTwice(t *testing.T) {
	_, client := redistest.Mini(t)
	c := newNode(t, client, Options{})
	e, _ := c.redis.entry("k")
	for _, tt := range []struct {
		name, key, field string
		finish           func(*lockmgr.Lock) (bool, error)
	}{
		{"store", e.value, "value", func(lock *lockmgr.Lock) (bool, error) {
			return c.redis.store(t.Context(), e, lock, []byte("ours"))
		}},
		{"fail", e.failure, "message", func(lock *lockmgr.Lock) (bool, error) {
			return c.redis.fail(t.Context(), e, lock, errors.New("ours"))
		}},
	} {
		_, lock, err := c.locks.AcquireOrWait(t.Context(), e.lock, lockmgr.WaitOptions{})
		redistest.OK(t, err)
		for range 2 {
			done, err := tt.finish(lock)
			redistest.ErrorIf(t, !done || err != nil, "%s: %v, %v", tt.name, done, err)
		}
		client.HSet(t.Context(), tt.key, tt.field, "newer", "by", "another")
		done, err := tt.finish(lock)
		redistest.ErrorIf(t, done || err != nil, "%s over a newer one: %v, %v", tt.name, done, err)
		got := client.HGet(t.Context(), tt.key, tt.field).Val()
		redistest.ErrorIf(t, got != "newer", "%s: %q is left", tt.name, got)
	}
}
