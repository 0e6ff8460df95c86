package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// The waiters of one process form a line, and only the first one asks Redis.
func TestOnePollerPerProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		var asked atomic.Int32
		clients[0].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if strings.HasPrefix(cmd.Name(), "eval") {
				asked.Add(1)
			}
			return nil
		}})
		holder := mustAcquire(t, managers[1], "a")
		var got order
		var want []string
		var wg sync.WaitGroup
		for i := range 20 {
			who := fmt.Sprint(i)
			want = append(want, who)
			wg.Go(func() {
				lock, err := managers[0].Acquire(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				got.note(who)
				mustRelease(t, lock)
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		n, limit := asked.Load(), int32(time.Second/DefaultPoll)+5
		redistest.ErrorIf(t, n > limit, "20 waiters asked %d times in a second, one would ask %d times", n, limit)
		if n := clients[0].ZCount(t.Context(), "Lock:a:Queue", "-inf", "(1e18").Val(); n != 1 {
			t.Errorf("%d tokens wait in Redis for one process", n)
		}
		asked.Store(0)
		mustRelease(t, holder)
		wg.Wait()
		redistest.ErrorIf(t, !slices.Equal(got.who, want), "the order was %v", got.who)
		if n := asked.Load(); n > 20+5 {
			t.Errorf("20 holds took %d scripts", n)
		}
	})
}

func TestTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{MaxWaiters: 2})
		m := managers[0]
		holder := mustAcquire(t, m, "a")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { mustRelease(t, mustAcquire(t, m, "a")) })
			synctest.Wait()
		}
		redistest.ErrorIs(t, "a third waiter", redistest.Err(m.Acquire(t.Context(), "a")), ErrBusy)
		mustRelease(t, holder)
		wg.Wait()
	})
}

// Every hold takes 100 ms and ten are ahead: a caller with a deadline of 200 ms gets ErrBusy
// at once.
func TestADeadlineThatCannotBeMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
		m := managers[0]
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				lock := mustAcquire(t, m, "a")
				time.Sleep(100 * time.Millisecond)
				mustRelease(t, lock)
			})
		}
		time.Sleep(1950 * time.Millisecond)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := m.Acquire(ctx, "a"); !errors.Is(err, ErrBusy) || time.Since(start) > 0 {
			t.Errorf("hopeless: %v after %v", err, time.Since(start))
		}
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		lock, err := m.Acquire(ctx, "a")
		redistest.FatalIf(t, err != nil, "in time: %v", err)
		mustRelease(t, lock)
		wg.Wait()
	})
}

// A release comes in the moment in which the next waiter gives up: it frees the lock.
func TestAReleaseIsNotForWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		m, w := managers[0], new(waiter)
		held := mustAcquire(t, m, "a")
		w.init(m, "a")
		redistest.OK(t, m.lines.join(t.Context(), w))
		redistest.ErrorIf(t, m.lines.abandon(w), "Redis may know its token")
		mustRelease(t, held)
		m.lines.remove(w, false)
		checkClean(t, clients[0])
	})
}
