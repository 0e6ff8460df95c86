package lockmgr

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

func TestDoneWhenTheDeadlinePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
		lock := mustAcquire(t, managers[0], "a")
		start := time.Now()
		time.AfterFunc(2*time.Second, func() { _ = lock.Extend(t.Context()) })
		redistest.OK(t, lock.Err())
		redistest.Receive(t, lock.Done(), "the hold to end")
		redistest.Equal(t, "over after", time.Since(start), 2*time.Second+DefaultTTL)
		err := lock.Err()
		redistest.ErrorIf(t, !errors.Is(err, ErrExpired) || !errors.Is(err, ErrLost), "over because of %v", err)
		redistest.ErrorIs(t, "release", lock.Release(t.Context()), ErrExpired)
		redistest.Receive(t, mustAcquireDone(t, managers[0]), "the hold to end")
	})
}

// mustAcquireDone returns the Done of a lock that expired before Done was called.
func mustAcquireDone(t *testing.T, m *Manager) <-chan struct{} {
	lock := mustAcquire(t, m, "b")
	time.Sleep(DefaultTTL)
	return lock.Done()
}

func TestDoneAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
		lock := mustAcquire(t, managers[0], "a")
		done := lock.Done()
		mustRelease(t, lock)
		redistest.Receive(t, done, "the hold to end")
		err := lock.Err()
		redistest.ErrorIf(t, err != ErrReleased, "after the release: %v", err)
		redistest.Receive(t, lock.Done(), "the hold to end")
	})
}

// The watchdog keeps a hold for an hour, notices when somebody else has the lock or Redis is
// away, and ends with the release.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	setUp := func(t *testing.T) (*Lock, *redis.Client, *atomic.Int32, *atomic.Bool) {
		managers, clients := nodes(t, 1, Options{})
		extended, away := new(atomic.Int32), new(atomic.Bool)
		clients[0].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if away.Load() {
				return errors.New("no route to host")
			}
			if isScript(cmd, extendScript) {
				extended.Add(1)
			}
			return nil
		}})
		lock := mustAcquire(t, managers[0], "a")
		lock.KeepAlive()
		lock.KeepAlive() // once is enough
		return lock, clients[0], extended, away
	}
	t.Run("keeps", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lock, client, extended, _ := setUp(t)
			time.Sleep(time.Hour)
			if err := lock.Err(); err != nil || client.Get(t.Context(), "Lock:a").Val() != lock.Token() {
				t.Errorf("after an hour: %v", err)
			}
			n := extended.Load()
			redistest.ErrorIf(t, n < 3500 || n > 3700, "%d extensions in an hour", n)
			mustRelease(t, lock)
			extended.Store(0)
			time.Sleep(time.Hour)
			if n := extended.Load(); n > 0 {
				t.Errorf("%d extensions after the release", n)
			}
			checkClean(t, client)
		})
	})
	t.Run("stolen", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lock, client, _, _ := setUp(t)
			client.Set(t.Context(), "Lock:a", "somebody", time.Hour)
			start := time.Now()
			redistest.Receive(t, lock.Done(), "the hold to end")
			if d := time.Since(start); !errors.Is(lock.Err(), ErrStolen) || d > DefaultTTL/3 {
				t.Errorf("noticed %v after %v", lock.Err(), d)
			}
		})
	})
	t.Run("unreachable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lock, _, _, away := setUp(t)
			away.Store(true)
			start := time.Now()
			redistest.Receive(t, lock.Done(), "the hold to end")
			if d := time.Since(start); !errors.Is(lock.Err(), ErrUnreachable) || d != DefaultTTL {
				t.Errorf("noticed %v after %v", lock.Err(), d)
			}
			away.Store(false)
		})
	})
	t.Run("back in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lock, _, _, away := setUp(t)
			away.Store(true)
			time.Sleep(2 * time.Second)
			away.Store(false)
			time.Sleep(time.Minute)
			redistest.OK(t, lock.Err())
			mustRelease(t, lock)
		})
	})
}

// After an extension the deadline lies a TTL after the request, however long the reply took.
func TestTheDeadlineCountsFromTheExtensionsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		lock := mustAcquire(t, managers[0], "a")
		afterScript(clients[0], extendScript, func() error {
			time.Sleep(time.Second)
			return nil
		})
		time.Sleep(time.Second)
		sent := time.Now()
		redistest.OK(t, lock.Extend(t.Context()))
		got, want := lock.Deadline(), sent.Add(DefaultTTL)
		redistest.ErrorIf(t, !got.Equal(want), "the deadline lies %v after the request", got.Sub(sent))
		mustRelease(t, lock)
	})
}

// Redis answers an extension or a release after the deadline, when the key has expired. Nobody
// has stolen the lock: an extension finds that Redis did not answer in time, and a release that
// the hold was over before that.
func TestAnAnswerAfterTheDeadlineIsNoTheft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		clients[0].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, extendScript) || isScript(cmd, releaseScript) {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		}})
		released := mustAcquire(t, managers[0], "a")
		time.Sleep(DefaultTTL - 100*time.Millisecond)
		redistest.OK(t, released.Release(t.Context()))
		extended := mustAcquire(t, managers[0], "b")
		time.Sleep(DefaultTTL - 100*time.Millisecond)
		redistest.ErrorIs(t, "extend", extended.Extend(t.Context()), ErrUnreachable)
		redistest.ErrorIs(t, "the hold ended because of", extended.Err(), ErrUnreachable)
	})
}
