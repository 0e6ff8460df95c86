package lockmgr

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// carries chooses requests that run one of those scripts about a lock.
func carries(name string, scripts ...*redis.Script) func(args []string) bool {
	return func(args []string) bool {
		return len(args) > 3 && args[3] == "Lock:"+name &&
			slices.ContainsFunc(scripts, func(s *redis.Script) bool { return s.Hash() == args[1] })
	}
}

// loadScripts has Redis know all scripts, so that no request fails for that reason.
func loadScripts(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	for _, s := range []*redis.Script{acquireScript, allScript, tryScript, extendScript, releaseScript, releaseAllScript, passScript, abandonScript, inheritScript} {
		redistest.OK(t, s.Load(t.Context(), client).Err())
	}
}

// shareRoundTrips keeps a request under way until the test ends, so that others of m share
// their round trips.
func shareRoundTrips(t *testing.T, m *Manager) {
	m.sender.underway.Add(1)
	t.Cleanup(func() { m.sender.underway.Add(-1) })
}

// The first copy of a request for the lock is under way for so long that the client sends it
// again. It arrives when the lock was released, and others have written: nobody has the lock
// then, and a late copy of a write under the old hold is refused.
func TestALateRequestRevivesNothing(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	loadScripts(t, plain)
	for name, acquire := range map[string]func(ctx context.Context, m *Manager) (*Lock, error){
		"acquire": func(ctx context.Context, m *Manager) (*Lock, error) { return m.Acquire(ctx, "a") },
		"try":     func(ctx context.Context, m *Manager) (*Lock, error) { return m.TryAcquire(ctx, "a") },
		"all": func(ctx context.Context, m *Manager) (*Lock, error) {
			all, err := m.AcquireAll(ctx, "a", "b")
			if err != nil {
				return nil, err
			}
			return all.Lock("a"), all.Lock("b").Release(ctx)
		},
		"or wait": func(ctx context.Context, m *Manager) (*Lock, error) {
			_, lock, err := m.AcquireOrWait(ctx, "a", WaitOptions{TTL: time.Minute})
			return lock, err
		},
	} {
		for _, pipelined := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", pipelined ", pipelined), func(t *testing.T) {
				plain.FlushDB(t.Context())
				proxy := redistest.StartProxy(t, server.Addr())
				client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true, ReadTimeout: 100 * time.Millisecond})
				defer client.Close()
				m := newManager(t, client, Options{TTL: time.Minute, Pipelined: pipelined})
				other := newManager(t, plain, Options{TTL: time.Minute})
				if pipelined {
					shareRoundTrips(t, m)
				}
				late := proxy.HoldBack(carries("a", acquireScript, tryScript, allScript))
				write := func(m *Manager, lock *Lock) bool {
					done, err := m.Run(t.Context(), guardedWrite, "a", []string{"log"}, lock.Token(), lock.Fence()).Bool()
					redistest.OK(t, err)
					return done
				}
				old, err := acquire(t.Context(), m)
				redistest.FatalIf(t, err != nil || old == nil, "%v", err)
				redistest.FatalIf(t, !write(m, old), "the holder could not write")
				mustRelease(t, old)
				newer := mustAcquire(t, other, "a")
				redistest.FatalIf(t, !write(other, newer), "the next holder could not write")
				mustRelease(t, newer)

				late.Deliver()
				redistest.ErrorIf(t, write(other, old), "a late write of the old hold was carried out")
				redistest.Equal(t, "the lock holds", plain.Get(t.Context(), "Lock:a").Val(), "")
				next, err := other.TryAcquire(t.Context(), "a")
				redistest.FatalIf(t, err != nil, "the next one: %v", err)
				mustRelease(t, next)
				plain.Del(t.Context(), "log")
				checkClean(t, plain)
			})
		}
	}
}

// A request arrives after its caller has given up and left: it gets neither the lock nor a
// position in the queue, whether the lock is free, held or waited for.
func TestALateRequestOfWhoGaveUp(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	loadScripts(t, plain)
	for _, state := range []string{"free", "held", "waited for"} {
		for _, pipelined := range []bool{false, true} {
			t.Run(fmt.Sprint(state, ", pipelined ", pipelined), func(t *testing.T) {
				plain.FlushDB(t.Context())
				proxy := redistest.StartProxy(t, server.Addr())
				client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true, ReadTimeout: 100 * time.Millisecond, MaxRetries: -1})
				defer client.Close()
				redistest.OK(t, client.Ping(t.Context()).Err()) // it is connected before the 50 ms begin
				m := newManager(t, client, Options{TTL: time.Minute, Pipelined: pipelined})
				if pipelined {
					shareRoundTrips(t, m)
				}
				other := newManager(t, plain, Options{TTL: time.Minute})
				late := proxy.HoldBack(carries("a", acquireScript))
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if lock, err := m.Acquire(ctx, "a"); err == nil {
					t.Fatalf("it has %s", lock.Token())
				}
				m.Close() // it has left
				var holder *Lock
				waiting := make(chan *Lock, 1)
				if state != "free" {
					holder = mustAcquire(t, other, "a")
				}
				if state == "waited for" {
					go func() { waiting <- mustAcquire(t, newManager(t, plain, Options{TTL: time.Minute}), "a") }()
					awaitQueue(t, plain, "a", 1) // beside the one that is buried
				}
				late.Deliver()
				n := plain.ZCount(t.Context(), "Lock:a:Queue", "-inf", "(1e18").Val()
				redistest.ErrorIf(t, n != int64(len(state)/len("waited for")), "%d wait", n)
				if holder != nil {
					mustRelease(t, holder)
				}
				if state == "waited for" {
					mustRelease(t, redistest.Receive(t, waiting, "the waiter to get the lock"))
				}
				checkClean(t, plain)
			})
		}
	}
}

// A hold goes on under another token, since its caller had no answer to the first request: who
// waits for its end goes on waiting.
func TestWaitingForAHoldWithAnotherToken(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	loadScripts(t, plain)
	proxy := redistest.StartProxy(t, server.Addr())
	m := newManager(t, proxy.Client(), Options{TTL: time.Minute})
	other := newManager(t, plain, Options{})
	settling, found := make(chan struct{}), make(chan struct{})
	proxy.OnRequest(func(args []string) redistest.Action {
		switch {
		case carries("a", acquireScript)(args) && len(settling) == 0:
			select {
			case <-settling:
			default:
				close(settling)
				return redistest.DropReply
			}
		case carries("a", inheritScript)(args):
			<-found
		}
		return redistest.Pass
	})
	got := acquiring(t, m, "a")
	redistest.Receive(t, settling, "the first request")
	outcome := make(chan Outcome, 1)
	polls := make(chan struct{}, 100)
	plain.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "get" {
			polls <- struct{}{}
		}
		return nil
	}})
	redistest.Until(t, "the first request is executed", func() bool { return plain.Exists(t.Context(), "Lock:a").Val() > 0 })
	go func() {
		o, _, err := other.AcquireOrWait(context.Background(), "a", WaitOptions{Poll: 5 * time.Millisecond})
		redistest.ErrorIf(t, err != nil, "%v", err)
		outcome <- o
	}()
	redistest.Receive(t, polls, "a look at the holder")
	close(found)
	lock := redistest.Receive(t, got, "the lock")
	for range 10 {
		redistest.Receive(t, polls, "a look at the holder")
	}
	select {
	case o := <-outcome:
		t.Errorf("during the hold: %v", o)
	default:
	}
	mustRelease(t, lock)
	if o := redistest.Receive(t, outcome, "the end of the hold"); o != Ended {
		t.Error(o)
	}
}

// A release that names a waiter of its process is under way, and that waiter gives up: when the
// release arrives, the waiter gets neither the lock nor a position.
func TestALateReleaseGivesNothingToWhoGaveUp(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	loadScripts(t, plain)
	for _, others := range []int64{0, 1} {
		plain.FlushDB(t.Context())
		proxy := redistest.StartProxy(t, server.Addr())
		m := newManager(t, proxy.Client(), Options{TTL: time.Minute, Poll: 10 * time.Second, Claim: 20 * time.Second})
		lock := mustAcquire(t, m, "a")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- second(m.Acquire(ctx, "a")) }()
		awaitQueue(t, plain, "a", 1)
		got := make(chan *Lock, 1)
		if others > 0 {
			go func() { got <- mustAcquire(t, newManager(t, plain, Options{TTL: time.Minute}), "a") }()
			awaitQueue(t, plain, "a", 2)
		}
		held, arrive := make(chan struct{}, 100), make(chan struct{})
		proxy.OnRequest(func(args []string) redistest.Action {
			if carries("a", passScript)(args) { // both sendings
				held <- struct{}{}
				<-arrive
			}
			return redistest.Pass
		})
		short, end := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_ = lock.Release(short) // goes on
		end()
		redistest.Receive(t, held, "the release")
		cancel()
		redistest.Receive(t, gone, "the waiter to give up")
		redistest.Until(t, "the waiter has left the queue", func() bool {
			return plain.ZCount(t.Context(), "Lock:a:Queue", "-inf", "(1e18").Val() <= others
		})
		close(arrive)
		if others > 0 {
			mustRelease(t, redistest.Receive(t, got, "the other waiter"))
		}
		m.Close()
		redistest.Until(t, "the lock is free", func() bool { return plain.Exists(t.Context(), "Lock:a").Val() == 0 })
		checkClean(t, plain)
	}
}
