package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

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
		_, err := m.AcquireAll(ctx, names...)
		redistest.ErrorIf(t, !errors.Is(err, context.DeadlineExceeded), "AcquireAll: %v", err)
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
	waiting := make(chan error, 1)
	go func() { waiting <- second(m.Acquire(t.Context(), "a")) }()
	awaitLine(t, m, "a", 1)
	closed := make(chan struct{})
	go func() { m.Close(); close(closed) }()
	if err := soon(t, "an Acquire of a closed Manager", func() error { return <-waiting }); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	server.Resume()
	redistest.Receive(t, closed, "Close")
}

// Redis is stopped while callers with short deadlines come and go, also through a pipeline:
// the requests that they abandon end, and so does Close.
func TestAbandonedRequestsEnd(t *testing.T) {
	t.Parallel()
	for _, pipelined := range []bool{false, true} {
		t.Run(fmt.Sprint("pipelined ", pipelined), func(t *testing.T) { testAbandonedRequestsEnd(t, pipelined) })
	}
}

func testAbandonedRequestsEnd(t *testing.T, pipelined bool) {
	t.Parallel()
	if !pipelined {
		redistest.Thorough(t) // a pipeline meets the same, and more
	}
	server := redistest.Start(t)
	client := server.Client()
	m := newManager(t, client, Options{Pipelined: pipelined})
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
	closed := make(chan struct{})
	go func() { m.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(15 * time.Second):
		t.Errorf("Close has not ended after 15s; %d goroutines run", runtime.NumGoroutine())
		server.Resume()
		<-closed
	}
	server.Resume()
}

func TestCloseEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		holder := mustAcquire(t, managers[1], "a")
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- second(managers[0].Acquire(t.Context(), "a")) }()
		}
		synctest.Wait()
		managers[0].Close()
		redistest.Equal(t, "tokens that wait", clients[1].ZCard(t.Context(), "Lock:a:Queue").Val(), 0)
		for range 2 {
			redistest.ErrorIs(t, "waiter", redistest.Receive(t, errs, "an Acquire to end"), ErrClosed)
		}
		redistest.ErrorIs(t, "acquire after close", redistest.Err(managers[0].Acquire(t.Context(), "a")), ErrClosed)
		mustRelease(t, holder)
		checkClean(t, clients[1])
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
		redistest.ErrorIs(t, "over because of", lock.Err(), ErrExpired)
		mustRelease(t, mustAcquire(t, managers[1], "a"))
		checkClean(t, clients[1])
	})
}

// A Close during a Release does not keep Release from asking Redis.
func TestCloseDuringARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		m := managers[0]
		lock := mustAcquire(t, m, "a")
		closed := make(chan struct{})
		var once sync.Once
		clients[0].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, releaseScript) {
				once.Do(func() { go func() { m.Close(); close(closed) }() })
				<-m.life.ctx.Done()
			}
			return nil
		}})
		redistest.OK(t, lock.Release(t.Context()))
		<-closed
		checkClean(t, clients[0])
	})
}
