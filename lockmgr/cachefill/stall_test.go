package cachefill

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// A loader that resumes after it lost its lock changes nothing.
func TestStalledLoaderIsRefused(t *testing.T) {
	for _, newer := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, client := redistest.Mini(t)
			var told atomic.Int32
			locks, err := lockmgr.New(redistest.MiniClient(t, r), lockmgr.Options{})
			redistest.OK(t, err)
			defer locks.Close()
			stalled, err := New(locks, Options{Load: time.Hour, Failed: func(_ string, err error) {
				redistest.ErrorIf(t, !errors.Is(err, lockmgr.ErrLost), "told %v", err)
				told.Add(1)
			}})
			redistest.OK(t, err)
			defer stalled.Close()
			other := newNode(t, client, Options{})
			e, _ := stalled.redis.entry("k")
			expected := "old"
			got, err := stalled.Get(t.Context(), "k", func(context.Context) ([]byte, error) {
				client.Del(t.Context(), stalled.locks.Key(e.lock)) // its time is over, and it does not know yet
				if newer {
					want(t, other, loader(new(atomic.Int32), 0), "value 1")
					expected = "value 1"
				}
				return []byte("old"), nil
			})
			redistest.ErrorIf(t, err != nil || string(got) != expected, "%q, %v; want %q", got, err, expected)
			redistest.ErrorIf(t, told.Load() != 1, "told %d times", told.Load())
			if got := client.HGet(t.Context(), "Cache:k", "value").Val(); newer && got != "value 1" ||
				!newer && got != "" {
				t.Errorf("the entry holds %q", got)
			}
		})
	}
}

// The context of a loader that loses its lock ends, and its callers do not wait for it.
func TestLoaderLosesItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		cut := redistest.MiniClient(t, r)
		c := newNode(t, cut, Options{Wait: time.Minute})
		var away atomic.Bool
		cut.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error {
			if away.Load() {
				return errors.New("no route to host")
			}
			return nil
		}})
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
		want(t, newNode(t, client, Options{}), loader(new(atomic.Int32), 0), "value 1")
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
