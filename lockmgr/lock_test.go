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
		if err := lock.Err(); err != nil {
			t.Errorf("while it is held: %v", err)
		}
		redistest.Receive(t, lock.Done(), "the hold to end")
		if d := time.Since(start); d != 2*time.Second+DefaultTTL {
			t.Errorf("over after %v", d)
		}
		if err := lock.Err(); !errors.Is(err, ErrExpired) || !errors.Is(err, ErrLost) {
			t.Errorf("over because of %v", err)
		}
		if err := lock.Release(t.Context()); !errors.Is(err, ErrExpired) {
			t.Errorf("release: %v", err)
		}
		redistest.Receive(t, mustAcquireDone(t, managers[0]), "the hold to end")
	})
}

// mustAcquireDone returns the Done of a lock that has expired before anybody asked
// for it.
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
		if err := lock.Err(); err != ErrReleased {
			t.Errorf("after the release: %v", err)
		}
		redistest.Receive(t, lock.Done(), "the hold to end")
	})
}

// The watchdog keeps a hold for an hour, notices when the lock is somebody
// else's, when Redis is away, and ends with the release.
func TestWatchdog(t *testing.T) {
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
			if n := extended.Load(); n < 3500 || n > 3700 {
				t.Errorf("%d extensions in an hour", n)
			}
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
			if err := lock.Err(); err != nil {
				t.Errorf("a short break: %v", err)
			}
			mustRelease(t, lock)
		})
	})
}

// The release does not wait for an extension that hangs, and the extension does
// not outlive it.
func TestReleaseEndsAHangingExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		ended := make(chan error, 1)
		clients[0].AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if isScript(cmd, extendScript) {
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			}
			return nil
		}})
		lock := mustAcquire(t, managers[0], "a")
		lock.KeepAlive()
		time.Sleep(1500 * time.Millisecond) // the first extension hangs
		start := time.Now()
		mustRelease(t, lock)
		redistest.Receive(t, ended, "fn to end")
		if d := time.Since(start); d != 0 {
			t.Errorf("the release took %v", d)
		}
		checkClean(t, clients[0])
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		m, client := managers[0], clients[0]
		wrong := errors.New("wrong")
		err := m.Do(t.Context(), "a", func(ctx context.Context) error {
			time.Sleep(time.Minute) // far beyond the TTL
			if ctx.Err() != nil || client.Get(ctx, "Lock:a").Val() == "" {
				t.Error("the hold did not last")
			}
			return wrong
		})
		if err != wrong {
			t.Errorf("fn's error became %v", err)
		}
		err = m.Do(t.Context(), "a", func(ctx context.Context) error {
			client.FlushAll(ctx)
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, ErrStolen) {
				t.Errorf("the cause is %v", cause)
			}
			return nil
		})
		if !errors.Is(err, ErrLost) {
			t.Errorf("a lost hold: %v", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = m.Do(t.Context(), "a", func(context.Context) error { panic("fn") })
		}()
		client.Set(t.Context(), "Lock:b", "somebody", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Do(ctx, "b", func(context.Context) error { t.Error("fn ran"); return nil }); !errors.Is(err, ErrHeld) {
			t.Errorf("a held lock: %v", err)
		}
		client.Del(t.Context(), "Lock:b")
		checkClean(t, client)
	})
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := redistest.Mini(t)
		var waited, held time.Duration
		var local, processes, stale int
		var lost error
		m := newManager(t, client, Options{Observer: Observer{
			Acquired:   func(_ string, d time.Duration) { waited = d },
			Released:   func(_ string, d time.Duration) { held = d },
			Queued:     func(_ string, l, p int) { local, processes = l, p },
			Lost:       func(_ string, cause error) { lost = cause },
			StaleWrite: func(string) { stale++ },
		}})
		other := newManager(t, redistest.MiniClient(t, server), Options{})
		first := mustAcquire(t, other, "a")
		time.AfterFunc(time.Second, func() { _ = first.Release(t.Context()) })
		lock := mustAcquire(t, m, "a")
		time.Sleep(2 * time.Second)
		mustRelease(t, lock)
		if waited != time.Second || held != 2*time.Second || local != 0 || processes != 0 {
			t.Errorf("waited %v, held %v, behind %d and %d", waited, held, local, processes)
		}
		lock = mustAcquire(t, m, "a")
		lock.WriteRefused()
		if !errors.Is(lost, ErrStolen) || stale != 1 || !errors.Is(lock.Err(), ErrStolen) {
			t.Errorf("lost %v, %d stale writes", lost, stale)
		}
		_ = lock.Release(t.Context())
		held = 0
		lock = mustAcquire(t, m, "a")
		lock.Given()
		if held == 0 && lock.Err() != ErrReleased {
			t.Errorf("given: %v", lock.Err())
		}
	})
}

// While Redis is asked for a release, the lock answers, and is not extended.
func TestALockAnswersDuringItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		goOn := make(chan struct{})
		clients[0].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, releaseScript) {
				<-goOn
			}
			return nil
		}})
		lock := mustAcquire(t, managers[0], "a")
		released := make(chan error)
		go func() { released <- lock.Release(t.Context()) }()
		synctest.Wait()
		if err := lock.Err(); err != ErrReleased {
			t.Errorf("meanwhile: %v", err)
		}
		if err := lock.Extend(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("extend meanwhile: %v", err)
		}
		close(goOn)
		if err := redistest.Receive(t, released, "Release"); err != nil {
			t.Errorf("release: %v", err)
		}
		checkClean(t, clients[0])
	})
}
