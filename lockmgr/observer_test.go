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

// However a hold ends, the Observer is called once.
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
