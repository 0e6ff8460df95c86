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

// The heir gives up while the lock is on its way to it within the process: it
// must go on to who is next.
func TestAnHeirThatGaveUp(t *testing.T) {
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
			next := make(chan *Lock)
			go func() { next <- mustAcquire(t, m, "a") }()
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
			if replyLost == (err == nil) {
				t.Errorf("release: %v", err)
			}
			start := time.Now()
			mustRelease(t, redistest.Receive(t, next, "the waiter to get the lock"))
			if d := time.Since(start); d > DefaultPoll {
				t.Errorf("the next one waited %v", d)
			}
			checkClean(t, clients[0])
		})
	}
}

// A waiter gives up before it has asked Redis for anything, while a release has
// chosen it as heir already.
func TestAnHeirThatNeverAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		m := managers[0]
		holder := mustAcquire(t, m, "a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, err := m.join(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		w.follows = true // it follows a holder of this process, and has not asked yet
		gaveUp := make(chan error, 1)
		released := false
		clients[0].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, passScript) && !released {
				released = true
				cancel() // after the heir was chosen, before Redis hears of it
				<-gaveUp
			}
			return nil
		}})
		go func() {
			defer m.calls.Done()
			_, err := m.wait(ctx, w)
			gaveUp <- err
		}()
		synctest.Wait()
		mustRelease(t, holder)
		checkClean(t, clients[0])
	})
}

// A reply was lost on the way to the heir; the lock is the heir's all the same.
func TestReleaseAgainAfterAHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		holder := mustAcquire(t, managers[0], "a")
		got := make(chan *Lock)
		go func() { got <- mustAcquire(t, managers[0], "a") }()
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
		heir := redistest.Receive(t, got, "the heir to get the lock")
		if err := holder.Release(t.Context()); err != nil {
			t.Errorf("release again: %v", err)
		}
		if token := clients[0].Get(t.Context(), "Lock:a").Val(); token != heir.Token() {
			t.Errorf("releasing twice took the lock from the heir: it holds %q", token)
		}
		mustRelease(t, heir)
		checkClean(t, clients[0])
	})
}
