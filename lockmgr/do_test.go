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

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		m, client := managers[0], clients[0]
		wrong := errors.New("wrong")
		err := m.Do(t.Context(), "a", func(ctx context.Context, _ *Lock) error {
			time.Sleep(time.Minute) // far beyond the TTL
			redistest.ErrorIf(t, ctx.Err() != nil || client.Get(ctx, "Lock:a").Val() == "", "the hold did not last")
			return wrong
		})
		redistest.ErrorIf(t, err != wrong, "fn's error became %v", err)
		err = m.Do(t.Context(), "a", func(ctx context.Context, _ *Lock) error {
			client.FlushAll(ctx)
			<-ctx.Done()
			cause := context.Cause(ctx)
			redistest.ErrorIf(t, !errors.Is(cause, ErrStolen), "the cause is %v", cause)
			return nil
		})
		redistest.ErrorIf(t, !errors.Is(err, ErrLost), "a lost hold: %v", err)
		func() {
			defer func() { _ = recover() }()
			_ = m.Do(t.Context(), "a", func(context.Context, *Lock) error { panic("fn") })
		}()
		client.Set(t.Context(), "Lock:b", "somebody", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Do(ctx, "b", func(context.Context, *Lock) error { t.Error("fn ran"); return nil }); !errors.Is(err, ErrHeld) {
			t.Errorf("a held lock: %v", err)
		}
		client.Del(t.Context(), "Lock:b")
		checkClean(t, client)
	})
}

// lose loses the next reply to a script.
func lose(client *redis.Client, script *redis.Script) {
	var lost atomic.Bool
	client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
		if isScript(cmd, script) && lost.CompareAndSwap(false, true) {
			return errors.New("reply lost")
		}
		return nil
	}})
}

// Redis is emptied during a Do, and another caller acquires the lock: Do returns an ErrLost. It
// does not if only the reply to its release was lost.
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
				err := m.Do(t.Context(), "a", func(context.Context, *Lock) error {
					meanwhile(t, client, other)
					return nil
				})
				redistest.ErrorIf(t, !errors.Is(err, ErrStolen), "Do returned %v", err)
			})
		})
	}
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		lock := mustAcquire(t, m, "a")
		lose(client, releaseScript)
		_ = lock.Release(t.Context())
		redistest.OK(t, lock.Release(t.Context()))
	})
}

// The context of fn ended with an ErrLost. So Do returns one, even if Redis still had the lock
// at the release.
func TestDoTellsAHoldThatWasOverHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		afterScript(clients[0], extendScript, func() error {
			return errors.New("reply lost") // and the extension was carried out
		})
		var cause error
		err := managers[0].Do(t.Context(), "a", func(ctx context.Context, _ *Lock) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		})
		redistest.ErrorIf(t, !errors.Is(cause, ErrUnreachable) || !errors.Is(err, ErrUnreachable),
			"the context ended with %v, Do returned %v", cause, err)
		checkClean(t, clients[0])
	})
}

// The hold was lost, and Redis does not answer the release either: Do returns the ErrLost.
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
		err := managers[0].Do(t.Context(), "a", func(ctx context.Context, _ *Lock) error {
			away.Store(true)
			<-ctx.Done()
			return nil
		})
		redistest.ErrorIf(t, !errors.Is(err, ErrUnreachable), "Do returned %v", err)
		away.Store(false)
	})
}
