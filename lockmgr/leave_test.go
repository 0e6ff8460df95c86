package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// Callers give up at any moment, by their deadlines or because they are cancelled. When
// their Manager is closed, neither a lock nor a place in a queue is left.
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
						patience := time.Duration(rand.IntN(int(5 * time.Millisecond)))
						ctx, cancel := context.WithCancel(t.Context())
						if rand.IntN(2) == 0 {
							ctx, cancel = context.WithTimeout(t.Context(), patience)
						} else {
							time.AfterFunc(patience, cancel)
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
		if err := acquireScript.Load(t.Context(), clients[0]).Err(); err != nil {
			t.Fatal(err)
		}
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
		if err := second(managers[0].Acquire(ctx, "a")); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		managers[0].Close()
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		checkClean(t, clients[0])
	})
}

// A request that had no answer lies unread in its connection until the clean-up has been
// answered, and is carried out then.
func TestTheCleanUpComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{TTL: time.Minute})
		var unread []any
		clients[0].AddHook(redistest.Hook{
			Before: func(_ context.Context, cmd redis.Cmder) error {
				if isScript(cmd, acquireScript) {
					unread = cmd.Args()
					return errors.New("connection reset by peer")
				}
				return nil
			},
			After: func(ctx context.Context, cmd redis.Cmder) error {
				if isScript(cmd, leaveScript) && unread != nil {
					if err := clients[1].Do(ctx, unread...).Err(); err != nil {
						t.Error(err)
					}
					unread = nil
				}
				return nil
			},
		})
		if err := acquireScript.Load(t.Context(), clients[1]).Err(); err != nil {
			t.Fatal(err)
		}
		if lock, err := managers[0].Acquire(t.Context(), "a"); err == nil {
			t.Fatalf("it has %s", lock.Token())
		}
		managers[0].Close()
		if unread != nil {
			t.Error("nothing was cleaned up")
		}
		checkClean(t, clients[1])
	})
}

// Redis stands still while callers give up: their requests lie unread in their
// connections, beside those that clean up after them.
func TestGivingUpWhileRedisStandsStill(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	for range 15 {
		client := server.Client()
		m := newManager(t, client, Options{TTL: time.Minute})
		mustRelease(t, mustAcquire(t, m, "warm"))
		server.Pause()
		var callers sync.WaitGroup
		for i := range 16 {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if err := second(m.Acquire(ctx, fmt.Sprint(i))); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("without Redis: %v", err)
				}
			})
		}
		callers.Wait()
		server.Resume()
		m.Close()
		checkClean(t, plain)
	}
}

// soon fails the test if do takes longer than a call may without Redis, by far.
func soon(t *testing.T, what string, do func() error) (err error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(4 * time.Second):
		t.Fatalf("%s has not ended after 4s", what)
		return nil
	}
}

// Redis is stopped: calls end with their contexts, and with the Manager.
func TestCallsEndWithoutRedis(t *testing.T) {
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

// Redis is stopped while callers with little patience come and go, through a pipeline,
// too: what they leave behind has an end, and so has Close.
func TestWhatIsLeftBehindEnds(t *testing.T) {
	for _, pipelined := range []bool{false, true} {
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
			t.Errorf("pipelined %v: Close has not ended after 15s; %d goroutines run", pipelined, runtime.NumGoroutine())
			server.Resume()
			<-closed
		}
		server.Resume()
	}
}

// Giving a lock back needs no memory: at maxmemory it goes to the next waiter, of this
// process or of another, or to nobody.
func TestReleaseAtMaxmemory(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	plain := server.Client()
	here, elsewhere := newManager(t, server.Client(), Options{TTL: time.Minute}), newManager(t, server.Client(), Options{TTL: time.Minute})
	for _, waiters := range [][]*Manager{{}, {here}, {elsewhere}, {elsewhere, here}, {here, elsewhere}} {
		lock := mustAcquire(t, here, "a")
		var got []chan *Lock
		for i, m := range waiters {
			next := make(chan *Lock, 1)
			got = append(got, next)
			go func() {
				lock, err := m.Acquire(t.Context(), "a")
				if err != nil {
					t.Error(err)
				}
				next <- lock
			}()
			awaitQueue(t, plain, "a", int64(i+1))
		}
		plain.ConfigSet(t.Context(), "maxmemory", "1")
		if err := second(here.TryAcquire(t.Context(), "b")); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Fatalf("Redis takes writes: %v", err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		if len(waiters) == 0 && plain.Exists(t.Context(), "Lock:a").Val() != 0 {
			t.Error("the lock stays")
		}
		for i, next := range got {
			select {
			case lock := <-next:
				if lock == nil {
					return
				}
				if err := lock.Release(t.Context()); err != nil {
					t.Errorf("release by waiter %d: %v", i, err)
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("waiter %d of %d was not given the lock", i, len(waiters))
			}
		}
		plain.ConfigSet(t.Context(), "maxmemory", "0")
		checkClean(t, plain)
	}
}

// awaitQueue waits until n tokens wait in Redis.
func awaitQueue(t *testing.T, client *redis.Client, name string, n int64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if client.ZCard(t.Context(), "Lock:"+name+":Queue").Val() >= n {
			return
		}
	}
	t.Fatalf("never %d waited for %s", n, name)
}

// Whoever closes the Manager and then the client leaves nothing behind.
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

// A user who may not publish hands locks over all the same; who waits finds out by asking.
func TestHandOverWithoutChannels(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	if err := plain.Do(t.Context(), "ACL", "SETUSER", "game", "on", ">secret", "~*", "+@all", "resetchannels").Err(); err != nil {
		t.Fatal(err)
	}
	user := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "game", Password: "secret"})
	defer user.Close()
	m, other := newManager(t, user, Options{}), newManager(t, user, Options{})
	lock := mustAcquire(t, m, "a")
	got := make(chan *Lock, 1)
	go func() { got <- mustAcquire(t, other, "a") }()
	awaitQueue(t, plain, "a", 1)
	mustRelease(t, lock)
	select {
	case lock := <-got:
		mustRelease(t, lock)
	case <-time.After(5 * time.Second):
		t.Error("the waiter did not get the lock")
	}
}

// The first SUBSCRIBE is lost: the wake-ups come from when the next one succeeds.
func TestWakeUpsAfterAFailedSubscribe(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	proxy := redistest.StartProxy(t, server.Addr())
	proxy.OnRequest(redistest.Once("SUBSCRIBE", redistest.DropRequest))
	holder := mustAcquire(t, newManager(t, plain, Options{TTL: time.Minute}), "a")
	m := newManager(t, proxy.Client(), Options{TTL: time.Minute, Poll: 10 * time.Second})
	got := make(chan *Lock, 1)
	go func() { got <- mustAcquire(t, m, "a") }()
	awaitQueue(t, plain, "a", 1)
	channel := m.wakeChannel("a")
	for end := time.Now().Add(5 * time.Second); plain.PubSubNumSub(t.Context(), channel).Val()[channel] == 0; {
		if time.Now().After(end) {
			t.Fatal("nobody has subscribed to the wake-ups")
		}
	}
	mustRelease(t, holder)
	select {
	case lock := <-got:
		mustRelease(t, lock)
	case <-time.After(5 * time.Second):
		t.Error("no wake-up has come")
		proxy.Cut()
	}
}
