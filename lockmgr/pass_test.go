package lockmgr

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// The next waiter gives up while a release passes it the lock within the process: the waiter
// behind it gets the lock.
func TestPassToAWaiterThatGaveUp(t *testing.T) {
	for _, replyLost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			managers, clients := nodes(t, 1, Options{})
			m := managers[0]
			holder := mustAcquire(t, m, "a")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			gaveUp := make(chan error)
			go func() { gaveUp <- second(m.Acquire(ctx, "a")) }()
			synctest.Wait()
			next := acquiring(t, m, "a")
			synctest.Wait()
			done := false
			clients[0].AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
				if isScript(cmd, passScript) && !done {
					done = true
					cancel()
					<-gaveUp
					if replyLost {
						return errors.New("reply lost")
					}
				}
				return nil
			}})
			err := holder.Release(t.Context())
			redistest.ErrorIf(t, replyLost == (err == nil), "release: %v", err)
			start := time.Now()
			mustRelease(t, redistest.Receive(t, next, "the waiter to get the lock"))
			d := time.Since(start)
			redistest.ErrorIf(t, d > DefaultPoll, "the next one waited %v", d)
			checkClean(t, clients[0])
		})
	}
}

// A waiter gives up before it has asked Redis for anything, when a release has already chosen
// it as the next one.
func TestPassToAWaiterThatNeverAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		m := managers[0]
		holder := mustAcquire(t, m, "a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := new(waiter)
		w.init(m, "a")
		redistest.OK(t, m.lines.join(ctx, w))
		w.handedOver = true // it follows a holder of this process, and has not asked yet
		gaveUp := make(chan error, 1)
		released := false
		clients[0].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, passScript) && !released {
				released = true
				cancel() // after it was chosen, before Redis is told
				<-gaveUp
			}
			return nil
		}})
		go func() {
			_, err := w.wait(ctx)
			gaveUp <- err
		}()
		synctest.Wait()
		mustRelease(t, holder)
		checkClean(t, clients[0])
	})
}

// The reply to a release is lost. The next waiter has the lock all the same, and releasing
// again does not take it away.
func TestReleaseAgainAfterAHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		holder := mustAcquire(t, managers[0], "a")
		got := acquiring(t, managers[0], "a")
		synctest.Wait()
		lost := false
		clients[0].AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, passScript) && !lost {
				lost = true
				return errors.New("reply lost")
			}
			return nil
		}})
		if err := holder.Release(t.Context()); err == nil {
			t.Fatal("the reply was not lost")
		}
		next := redistest.Receive(t, got, "the waiter to get the lock")
		redistest.OK(t, holder.Release(t.Context()))
		if token := clients[0].Get(t.Context(), "Lock:a").Val(); token != next.Token() {
			t.Errorf("releasing twice took the lock from the next waiter: it holds %q", token)
		}
		mustRelease(t, next)
		checkClean(t, clients[0])
	})
}
