package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
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
	virtually(t, 1, Options{TTL: time.Minute}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		redistest.OK(t, acquireScript.Load(t.Context(), clients[0]).Err())
		asked := 0
		beforeScript(clients[0], acquireScript, func(ctx context.Context) error {
			if asked++; asked == 1 { // the caller finds Redis slow
				<-ctx.Done()
				return context.Cause(ctx)
			}
			time.Sleep(2 * time.Second)
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		redistest.ErrorIs(t, "the error is", second(managers[0].Acquire(ctx, "a")), context.Canceled)
		managers[0].Close()
		redistest.ErrorIf(t, asked != 2, "asked %d times", asked)
	})
}

// A waiter that gives up leaves no position in the queue, and the one behind it goes on.
func TestGivingUp(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
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
		for gone, i := range []int{1, 0, 2} { // in the middle, at the head, the last
			cancels[i](reason)
			err := redistest.Receive(t, errs, "an Acquire to end")
			redistest.ErrorIf(t, !errors.Is(err, reason) || !errors.Is(err, ErrHeld), "waiter %d: %v", i, err)
			synctest.Wait()
			want := int64(min(1, 2-gone))
			n := queued(t, clients[0])
			redistest.ErrorIf(t, n != want, "after waiter %d gave up %d tokens wait, want %d", i, n, want)
		}
		mustRelease(t, holder)
	})
}

// Redis is stopped: calls end with their contexts, and with the Manager.
func TestCallsEndWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, ReadTimeout: time.Minute})
	defer client.Close()
	m := newManager(t, client, Options{TTL: time.Minute})
	mustRelease(t, mustAcquire(t, m, "warm"))
	server.Pause()
	defer server.Resume()
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	_ = soon(t, "AcquireAll with a deadline of 100ms", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		redistest.ErrorIs(t, "AcquireAll", redistest.Err(m.AcquireAll(ctx, names...)), context.DeadlineExceeded)
		return nil
	})
	reason := errors.New("closed the window")
	for range 2 { // while Redis is not known to be slow, and then
		err := soon(t, "a cancelled Acquire", func() error {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(20*time.Millisecond, func() { cancel(reason) })
			return second(m.Acquire(ctx, "a"))
		})
		redistest.ErrorIf(t, !errors.Is(err, reason), "a cancelled Acquire: %v", err)
	}
	waiting := giving(t.Context(), m)
	awaitLine(t, m, "a", 1)
	closed := make(chan struct{})
	go func() { m.Close(); close(closed) }()
	err := soon(t, "an Acquire of a closed Manager", func() error { return <-waiting })
	redistest.ErrorIf(t, !errors.Is(err, ErrClosed), "after Close: %v", err)
	server.Resume()
	redistest.Receive(t, closed, "Close")
}

// Redis is stopped while callers with short deadlines come and go, also through a pipeline:
// the requests that they abandon end, and so does Close.
func TestAbandonedRequestsEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	m := newManager(t, client, Options{Pipelined: true}) // by themselves they meet less
	mustRelease(t, mustAcquire(t, m, "warm"))
	server.Pause()
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
				_, _ = m.TryAcquire(ctx, fmt.Sprint(i))
				cancel()
			}
		})
	}
	callers.Wait()
	end := time.AfterFunc(15*time.Second, func() {
		t.Errorf("Close has not ended after 15s; %d goroutines run", runtime.NumGoroutine())
		server.Resume()
	})
	m.Close()
	end.Stop()
	server.Resume()
}

func TestCloseEndsTheWaiting(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		holder := mustAcquire(t, managers[1], "a")
		waiting := []<-chan error{giving(t.Context(), managers[0]), giving(t.Context(), managers[0])}
		synctest.Wait()
		managers[0].Close()
		redistest.Equal(t, "tokens that wait", clients[1].ZCard(t.Context(), "Lock:a:Queue").Val(), 0)
		for _, err := range waiting {
			redistest.ErrorIs(t, "waiter", redistest.Receive(t, err, "an Acquire to end"), ErrClosed)
		}
		redistest.ErrorIs(t, "acquire after close", redistest.Err(managers[0].Acquire(t.Context(), "a")), ErrClosed)
		mustRelease(t, holder)
	})
}

// A watchdog ends with its Manager: the hold then lasts until its deadline.
func TestCloseEndsWatchdogs(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		lock := mustAcquire(t, managers[0], "a")
		lock.KeepAlive()
		time.Sleep(time.Minute)
		managers[0].Close()
		lock.KeepAlive() // does not begin again
		time.Sleep(DefaultTTL)
		redistest.ErrorIs(t, "over because of", lock.Err(), ErrExpired)
		mustRelease(t, mustAcquire(t, managers[1], "a"))
	})
}

// A Close during a Release does not keep Release from asking Redis.
func TestCloseDuringARelease(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m := managers[0]
		lock := mustAcquire(t, m, "a")
		closed := make(chan struct{})
		var once sync.Once
		beforeScript(clients[0], releaseScript, func(context.Context) error {
			once.Do(func() { go func() { m.Close(); close(closed) }() })
			<-m.life.ctx.Done()
			return nil
		})
		redistest.OK(t, lock.Release(t.Context()))
		<-closed
	})
}
