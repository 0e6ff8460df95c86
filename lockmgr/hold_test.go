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

// lose has the reply to the next request with a script lost.
func lose(client *redis.Client, script *redis.Script) {
	var lost atomic.Bool
	client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
		if isScript(cmd, script) && lost.CompareAndSwap(false, true) {
			return errors.New("reply lost")
		}
		return nil
	}})
}

// In doubt the hold is over: the lock may be another's already.
func TestAReleaseWithoutAReplyEndsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		lock := mustAcquire(t, managers[0], "a")
		lock.KeepAlive()
		done := lock.Done()
		lose(clients[0], releaseScript)
		if err := lock.Release(t.Context()); err == nil {
			t.Fatal("the reply was not lost")
		}
		other := mustAcquire(t, managers[1], "a")
		if err := lock.Err(); !errors.Is(err, ErrReleased) {
			t.Errorf("while another holds the lock: %v", err)
		}
		select {
		case <-done:
		default:
			t.Error("Done is open while another holds the lock")
		}
		if err := lock.Extend(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("extend: %v", err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("release again: %v", err)
		}
		mustRelease(t, other)
		checkClean(t, clients[1])
	})
}

// Redis is emptied during a Do, and another takes the lock meanwhile: Do says so. A reply
// that was lost is another matter: there the lock was given back.
func TestDoTellsALostLock(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, client *redis.Client, other *Manager){
		"emptied": func(t *testing.T, client *redis.Client, _ *Manager) { client.FlushAll(t.Context()) },
		"emptied, and taken": func(t *testing.T, client *redis.Client, other *Manager) {
			client.FlushAll(t.Context())
			mustAcquire(t, other, "a")
		},
		"emptied, and taken for a moment": func(t *testing.T, client *redis.Client, other *Manager) {
			client.FlushAll(t.Context())
			mustRelease(t, mustAcquire(t, other, "a"))
		},
		"scripts lost, too": func(t *testing.T, client *redis.Client, other *Manager) {
			client.FlushAll(t.Context())
			client.ScriptFlush(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client *redis.Client) {
				m, other := newManager(t, client, Options{TTL: time.Minute}), newManager(t, client, Options{TTL: time.Minute})
				err := m.Do(t.Context(), "a", func(context.Context) error {
					meanwhile(t, client, other)
					return nil
				})
				if !errors.Is(err, ErrStolen) {
					t.Errorf("Do returned %v", err)
				}
			})
		})
	}
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		lock := mustAcquire(t, m, "a")
		lose(client, releaseScript)
		_ = lock.Release(t.Context())
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("released, and the reply lost: %v", err)
		}
	})
}

// fn's context has ended with an ErrLost, and so Do returns one, although Redis still had
// the lock when it was given back.
func TestDoTellsAHoldThatWasOverHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		clients[0].AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, extendScript) {
				return errors.New("reply lost") // and the extension was carried out
			}
			return nil
		}})
		var cause error
		err := managers[0].Do(t.Context(), "a", func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		})
		if !errors.Is(cause, ErrUnreachable) || !errors.Is(err, ErrUnreachable) {
			t.Errorf("the context ended with %v, Do returned %v", cause, err)
		}
		checkClean(t, clients[0])
	})
}

// Redis takes the extension and never answers.
func TestABlackHoleIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		clients[0].AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if isScript(cmd, extendScript) {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		lock := mustAcquire(t, managers[0], "a")
		lock.KeepAlive()
		redistest.Receive(t, lock.Done(), "the hold to end")
		if err := lock.Err(); !errors.Is(err, ErrUnreachable) {
			t.Errorf("over because of %v", err)
		}
	})
}

// A watchdog ends with its Manager: the hold then lasts until its deadline.
func TestCloseEndsWatchdogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		lock := mustAcquire(t, managers[0], "a")
		lock.KeepAlive()
		time.Sleep(time.Minute)
		managers[0].Close()
		lock.KeepAlive() // does not begin again
		select {
		case <-lock.Done():
		case <-time.After(DefaultTTL + time.Second):
			t.Fatal("the hold is extended after Close")
		}
		if err := lock.Err(); !errors.Is(err, ErrExpired) {
			t.Errorf("over because of %v", err)
		}
		mustRelease(t, mustAcquire(t, managers[1], "a"))
		checkClean(t, clients[1])
	})
}

// A release is carried out also if its context has ended, or ends meanwhile.
func TestReleaseOnAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		reason := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(reason)
		lock := mustAcquire(t, managers[0], "a")
		if err := lock.Release(ctx); err != nil && !errors.Is(err, reason) {
			t.Errorf("release: %v", err)
		}
		synctest.Wait()
		checkClean(t, clients[0])
	})
}

// What holds a lock can give it back after Close.
func TestReleaseAfterClose(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		lock := mustAcquire(t, m, "a")
		m.Close()
		mustRelease(t, lock)
		checkClean(t, client)
	})
}

// A nil context is bad input like any other.
func TestNilContexts(t *testing.T) {
	_, client := redistest.Mini(t)
	m := newManager(t, client, Options{})
	lock := mustAcquire(t, m, "a")
	all, err := m.AcquireAll(t.Context(), "b", "c")
	if err != nil {
		t.Fatal(err)
	}
	var none context.Context
	for name, call := range map[string]func() error{
		"Acquire":         func() error { return second(m.Acquire(none, "x")) },
		"TryAcquire":      func() error { return second(m.TryAcquire(none, "x")) },
		"AcquireAll":      func() error { _, err := m.AcquireAll(none, "x", "y"); return err },
		"AcquireOrVanish": func() error { _, _, err := m.AcquireOrVanish(none, "x", VanishOptions{}); return err },
		"Do":              func() error { return m.Do(none, "x", func(context.Context) error { return nil }) },
		"Do nothing":      func() error { return m.Do(t.Context(), "x", nil) },
		"Extend":          func() error { return lock.Extend(none) },
		"Release":         func() error { return lock.Release(none) },
		"Locks.Release":   func() error { return all.Release(none) },
		"Run":             func() error { return m.Run(none, extendScript, "x", nil).Err() },
		"Process":         func() error { return m.Process(none, "x", redis.NewCmd(t.Context(), "ping")) },
	} {
		if err := call(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustRelease(t, lock)
	if err := all.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The hold was lost, and Redis does not answer the release either: Do says that it was.
func TestDoTellsALostLockWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		var away atomic.Bool
		clients[0].AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if away.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		err := managers[0].Do(t.Context(), "a", func(ctx context.Context) error {
			away.Store(true)
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("Do returned %v", err)
		}
		away.Store(false)
	})
}

// However a hold ends, its Observer is told once.
func TestEveryHoldEndsOnceForTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		var released, lost atomic.Int32
		m := newManager(t, client, Options{Observer: Observer{
			Released: func(string, time.Duration) { released.Add(1) },
			Lost:     func(string, error) { lost.Add(1) },
		}})
		var away atomic.Bool
		client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error {
			if away.Load() {
				return errors.New("no route to host")
			}
			return nil
		}})
		for name, end := range map[string]func(lock *Lock){
			"released":  func(lock *Lock) { mustRelease(t, lock); mustRelease(t, lock) },
			"no answer": func(lock *Lock) { away.Store(true); _ = lock.Release(t.Context()) },
			"no answer at first": func(lock *Lock) {
				away.Store(true)
				_ = lock.Release(t.Context())
				away.Store(false)
				mustRelease(t, lock)
			},
			"stolen":  func(lock *Lock) { client.Del(t.Context(), "Lock:a"); _ = lock.Release(t.Context()) },
			"expired": func(lock *Lock) { time.Sleep(DefaultTTL); _ = lock.Err(); _ = lock.Release(t.Context()) },
			"refused": func(lock *Lock) { lock.WriteRefused(); _ = lock.Release(t.Context()) },
			"given":   func(lock *Lock) { lock.Given(); mustRelease(t, lock) },
		} {
			released.Store(0)
			lost.Store(0)
			end(mustAcquire(t, m, "a"))
			away.Store(false)
			if r, l := released.Load(), lost.Load(); r+l != 1 {
				t.Errorf("%s: %d released, %d lost", name, r, l)
			}
			client.Del(t.Context(), "Lock:a")
		}
	})
}
