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
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AcquireAll: %v", err)
		}
		return nil
	})
	reason := errors.New("closed the window")
	for range 2 { // while Redis is not known to be slow, and then
		err := soon(t, "a cancelled Acquire", func() error {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(20*time.Millisecond, func() { cancel(reason) })
			return second(m.Acquire(ctx, "a"))
		})
		if !errors.Is(err, reason) {
			t.Errorf("a cancelled Acquire: %v", err)
		}
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

// Closing the Manager and then the client leaves nothing in Redis.
func TestCloseManagerThenClient(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	holder := mustAcquire(t, newManager(t, plain, Options{TTL: time.Minute}), "a")
	for range 50 {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
		m := newManager(t, client, Options{})
		var waiting sync.WaitGroup
		for range 4 {
			waiting.Go(func() { _, _ = m.Acquire(t.Context(), "a") })
		}
		awaitQueue(t, plain, "a", 1)
		m.Close()
		_ = client.Close()
		waiting.Wait()
		if left := plain.ZRange(t.Context(), "Lock:a:Queue", 0, -1).Val(); len(left) > 0 {
			t.Fatalf("%v are left in the queue", left)
		}
	}
	mustRelease(t, holder)
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
		for range 2 {
			if err := redistest.Receive(t, errs, "an Acquire to end"); !errors.Is(err, ErrClosed) {
				t.Errorf("waiter: %v", err)
			}
		}
		if _, err := managers[0].Acquire(t.Context(), "a"); !errors.Is(err, ErrClosed) {
			t.Errorf("acquire after close: %v", err)
		}
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
		if err := lock.Err(); !errors.Is(err, ErrExpired) {
			t.Errorf("over because of %v", err)
		}
		mustRelease(t, mustAcquire(t, managers[1], "a"))
		checkClean(t, clients[1])
	})
}

// A Lock can be released after Close.
func TestReleaseAfterClose(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		lock := mustAcquire(t, m, "a")
		m.Close()
		mustRelease(t, lock)
		checkClean(t, client)
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
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		<-closed
		checkClean(t, clients[0])
	})
}
