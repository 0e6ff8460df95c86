package lockmgr

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// The waiters of one process form a line, and only the first one asks Redis.
func TestOnePollerPerProcess(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		asked, passed := counted(clients[0], acquireScript), counted(clients[0], passScript)
		holder := mustAcquire(t, managers[1], "a")
		var got order
		var want []string
		var wg sync.WaitGroup
		for i := range 20 {
			who := fmt.Sprint(i)
			want = append(want, who)
			wg.Go(func() {
				lock := mustAcquire(t, managers[0], "a")
				got.note(who)
				mustRelease(t, lock)
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		n, limit := asked.Load(), int32(time.Second/DefaultPoll)+5
		redistest.ErrorIf(t, n > limit, "20 waiters asked %d times in a second, one would ask %d times", n, limit)
		redistest.Equal(t, "tokens that wait in Redis for one process:", queued(t, clients[0]), 1)
		asked.Store(0)
		mustRelease(t, holder)
		wg.Wait()
		redistest.ErrorIf(t, !slices.Equal(got.who, want), "the order was %v", got.who)
		n = asked.Load() + passed.Load()
		redistest.ErrorIf(t, n > 20+5, "20 holds took %d requests and hand-overs", n)
	})
}

func TestTooManyWait(t *testing.T) {
	virtually(t, 1, Options{MaxWaiters: 2}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
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
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
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
		redistest.ErrorIs(t, "hopeless", second(m.Acquire(ctx, "a")), ErrBusy)
		redistest.Equal(t, "refused after", time.Since(start), 0)
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
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m, w := managers[0], newWaiter(managers[0])
		held := mustAcquire(t, m, "a")
		redistest.OK(t, m.lines.join(t.Context(), w))
		redistest.ErrorIf(t, m.lines.abandon(w), "Redis may know its token")
		mustRelease(t, held)
		m.lines.remove(w, false)
	})
}

// The next waiter gives up while a release passes it the lock within the process: the waiter
// behind it gets the lock.
func TestPassToAWaiterThatGaveUp(t *testing.T) {
	for _, lost := range []error{nil, errLostReply} {
		virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
			m := managers[0]
			holder := mustAcquire(t, m, "a")
			ctx, cancel := context.WithCancel(t.Context())
			gaveUp := giving(ctx, m)
			synctest.Wait()
			next := acquiring(t, m, "a")
			synctest.Wait()
			done := false
			afterScript(clients[0], passScript, func(context.Context) error {
				if done {
					return nil
				}
				done = true
				cancel()
				<-gaveUp
				return lost
			})
			redistest.ErrorIs(t, "release", holder.Release(t.Context()), lost)
			start := time.Now()
			mustRelease(t, redistest.Receive(t, next, "the waiter to get the lock"))
			d := time.Since(start)
			redistest.ErrorIf(t, d > DefaultPoll, "the next one waited %v", d)
		})
	}
}

// A waiter gives up before it has asked Redis for anything, when a release has already chosen
// it as the next one.
func TestPassToAWaiterThatNeverAsked(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		holder := mustAcquire(t, managers[0], "a")
		ctx, cancel := context.WithCancel(t.Context())
		w := newWaiter(managers[0])
		redistest.OK(t, managers[0].lines.join(ctx, w))
		w.handedOver = true // it follows a holder of this process, and has not asked yet
		gaveUp := make(chan error, 1)
		chosen := sync.OnceFunc(func() { cancel(); <-gaveUp }) // before Redis is told
		beforeScript(clients[0], passScript, func(context.Context) error { chosen(); return nil })
		go func() { gaveUp <- redistest.Err(w.wait(ctx)) }()
		synctest.Wait()
		mustRelease(t, holder)
	})
}

// The reply to a release is lost. The next waiter has the lock all the same, and releasing
// again does not take it away.
func TestReleaseAgainAfterAHandoff(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		holder := mustAcquire(t, managers[0], "a")
		got := acquiring(t, managers[0], "a")
		synctest.Wait()
		lose(clients[0], passScript)
		redistest.ErrorIs(t, "release", holder.Release(t.Context()), errLostReply)
		next := redistest.Receive(t, got, "the waiter to get the lock")
		redistest.OK(t, holder.Release(t.Context()))
		redistest.Equal(t, "the lock holds", clients[0].Get(t.Context(), "Lock:a").Val(), next.Token())
		mustRelease(t, next)
	})
}
