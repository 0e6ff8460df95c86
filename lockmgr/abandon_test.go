package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// Callers give up at any moment, by deadline or cancellation. When their Manager is closed,
// neither a lock nor a position in a queue is left.
func TestGivingUpAtAnyMoment(t *testing.T) {
	server := redistest.Start(t)
	for _, pipelined := range []bool{false, true} {
		t.Run(fmt.Sprint("pipelined ", pipelined), func(t *testing.T) {
			client := server.Client()
			m := newManager(t, client, Options{Pipelined: pipelined, TTL: time.Minute})
			var callers sync.WaitGroup
			for range 64 {
				callers.Go(func() {
					for range 30 {
						limit := time.Duration(rand.IntN(int(5 * time.Millisecond)))
						ctx, cancel := context.WithCancel(t.Context())
						if rand.IntN(2) == 0 {
							ctx, cancel = context.WithTimeout(t.Context(), limit)
						} else {
							time.AfterFunc(limit, cancel)
						}
						name := fmt.Sprint(rand.IntN(8))
						if lock, err := m.Acquire(ctx, name); err == nil {
							_ = lock.Release(ctx)
						}
						cancel()
					}
				})
			}
			callers.Wait()
			m.Close()
			checkClean(t, server.Client())
		})
	}
}

// A caller gives up while its request is under way: the clean-up comes after that.
func TestTheCleanUpWaitsForTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{TTL: time.Minute})
		redistest.OK(t, acquireScript.Load(t.Context(), clients[0]).Err())
		asked := 0
		clients[0].AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if !isScript(cmd, acquireScript) {
				return nil
			}
			if asked++; asked == 1 { // the caller finds Redis slow
				<-ctx.Done()
				return context.Cause(ctx)
			}
			time.Sleep(2 * time.Second)
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		redistest.ErrorIs(t, "the error is", second(managers[0].Acquire(ctx, "a")), context.Canceled)
		managers[0].Close()
		redistest.ErrorIf(t, asked != 2, "asked %d times", asked)
		checkClean(t, clients[0])
	})
}

func TestCancelledAcquireLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{TTL: time.Minute})
		reason := errors.New("the player closed the window")

		t.Run("before", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(reason)
			redistest.ErrorIs(t, "acquire", redistest.Err(m.Acquire(ctx, "a")), reason)
		})
		t.Run("while the request is executed", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			done := false
			client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
				if !done && strings.HasPrefix(cmd.Name(), "eval") {
					done = true
					cancel(reason)
					return context.Canceled
				}
				return nil
			}})
			redistest.ErrorIs(t, "acquire", redistest.Err(m.Acquire(ctx, "a")), reason)
		})
		t.Run("while it waits", func(t *testing.T) {
			holder := mustAcquire(t, m, "b")
			ctx, cancel := context.WithCancelCause(t.Context())
			var polls atomic.Int32
			client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
				if isScript(cmd, acquireScript) && polls.Add(1) == 3 {
					cancel(reason)
				}
				return nil
			}})
			if _, err := m.Acquire(ctx, "b"); !errors.Is(err, reason) || !errors.Is(err, ErrHeld) {
				t.Fatalf("acquire: %v", err)
			}
			if got := client.Get(t.Context(), m.Key("b")).Val(); got != holder.Token() {
				t.Fatalf("the lock holds %q instead of its holder's token", got)
			}
			redistest.OK(t, holder.Release(t.Context()))
		})
		checkClean(t, client)
	})
}

// A waiter that gives up leaves no position in the queue, and the one behind it goes on.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		holder := mustAcquire(t, managers[1], "a")
		reason := errors.New("closed the window")
		errs := make(chan error, 3)
		var cancels []context.CancelCauseFunc
		for range 3 {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancels = append(cancels, cancel)
			go func() { errs <- second(managers[0].Acquire(ctx, "a")) }()
			synctest.Wait()
		}
		for _, i := range []int{1, 0, 2} { // in the middle, at the head, the last
			cancels[i](reason)
			err := redistest.Receive(t, errs, "an Acquire to end")
			redistest.ErrorIf(t, !errors.Is(err, reason) || !errors.Is(err, ErrHeld), "waiter %d: %v", i, err)
			synctest.Wait()
			want := int64(1)
			if i == 2 {
				want = 0
			}
			n := clients[0].ZCount(t.Context(), "Lock:a:Queue", "-inf", "(1e18").Val()
			redistest.ErrorIf(t, n != want, "after waiter %d gave up %d tokens wait, want %d", i, n, want)
		}
		mustRelease(t, holder)
		checkClean(t, clients[0])
	})
}
