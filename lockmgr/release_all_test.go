package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// manyNames returns so many names.
func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("lock %03d", i))
	}
	return names
}

// requestsOf counts the sendings of each script from now on.
func requestsOf(client *redis.Client) func(script *redis.Script) int {
	sent, mu := map[string]int{}, sync.Mutex{}
	client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		for _, s := range []*redis.Script{acquireScript, allScript, releaseScript, releaseAllScript, abandonScript} {
			if isScript(cmd, s) {
				mu.Lock()
				sent[s.Hash()]++
				mu.Unlock()
			}
		}
		return nil
	}})
	return func(script *redis.Script) int {
		mu.Lock()
		defer mu.Unlock()
		return sent[script.Hash()]
	}
}

// farAway makes requests of a client take so long.
func farAway(client *redis.Client, roundTrip time.Duration) {
	half := func(context.Context, redis.Cmder) error { time.Sleep(roundTrip / 2); return nil }
	client.AddHook(redistest.Hook{Before: half, After: half})
}

// Many locks are released as fast as one, and none is called lost that was not.
func TestLocksReleaseTogether(t *testing.T) {
	for _, cluster := range []bool{false, true} { // with a slot for each lock
		synctest.Test(t, func(t *testing.T) {
			managers, clients := nodes(t, 1, Options{})
			managers[0].names.cluster = cluster
			loadScripts(t, clients[0])
			locks := mustAll(t, managers[0], manyNames(100)...)
			const roundTrip = 40 * time.Millisecond
			farAway(clients[0], roundTrip)
			sent := requestsOf(clients[0])
			time.Sleep(time.Until(locks.Deadline()) - 2*roundTrip)
			start := time.Now()
			redistest.OK(t, locks.Release(t.Context()))
			if took := time.Since(start); took > 3*roundTrip { // two to make a connection
				t.Errorf("it took %v", took)
			}
			n := sent(releaseAllScript) + sent(releaseScript)
			redistest.ErrorIf(t, n != 1 && !cluster, "%d requests", n)
			checkClean(t, clients[0])
		})
	}
}

// All holds are over before Redis is asked.
func TestLocksReleaseEndsAllHoldsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		m := managers[0]
		m.names.cluster = true // so each lock is in a slot of its own
		locks := mustAll(t, m, "a", "b", "c")
		clients[0].AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if isScript(cmd, releaseScript) {
				for lock := range locks.Each() {
					err := lock.Err()
					redistest.ErrorIf(t, err != ErrReleased, "%s meanwhile: %v", lock.Name(), err)
				}
				time.Sleep(time.Second)
			}
			return nil
		}})
		start := time.Now()
		if err := locks.Release(t.Context()); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("released after %v: %v", time.Since(start), err)
		}
		checkClean(t, clients[0])
	})
}

// One request releases locks for which nobody waits, others of this process, and another process; a lock that was
// stolen, and one that cannot be released. Each has an outcome of its own.
func TestLocksReleaseEachToItsNext(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m, other := newManager(t, client, Options{TTL: time.Minute}), newManager(t, client, Options{TTL: time.Minute})
		locks := mustAll(t, m, "broken", "nobody", "other", "own", "stolen")
		got := make(chan *Lock, 2)
		for _, name := range []string{"own", "other"} {
			from := map[string]*Manager{"own": m, "other": other}[name]
			go func() {
				lock, err := from.Acquire(t.Context(), name)
				redistest.ErrorIf(t, err != nil, "%v", err)
				got <- lock
			}()
			awaitQueue(t, client, name, 1)
		}
		client.Set(t.Context(), "Lock:broken:Queue", "no queue", 0)
		client.Set(t.Context(), "Lock:stolen", "thief", time.Minute)
		err := locks.Release(t.Context())
		if text := fmt.Sprint(err); !errors.Is(err, ErrStolen) || strings.Count(text, "\n") != 1 ||
			!strings.Contains(text, `release "stolen"`) || !strings.Contains(text, `release "broken": `) || !strings.Contains(text, "WRONGTYPE") {
			t.Errorf("release: %v", err)
		}
		for range 2 {
			if lock := redistest.Receive(t, got, "a waiter to get the lock"); lock != nil {
				if lock.Err() != nil || client.Get(t.Context(), m.Key(lock.Name())).Val() != lock.Token() {
					t.Errorf("%s is not held: %v", lock.Name(), lock.Err())
				}
				mustRelease(t, lock)
			}
		}
		client.Del(t.Context(), "Lock:broken:Queue", "Lock:stolen")
		if err := locks.Release(t.Context()); !errors.Is(err, ErrStolen) || strings.Contains(err.Error(), "broken") {
			t.Errorf("again: %v", err)
		}
		checkClean(t, client)
	})
}

// The reply to a release of several locks is lost: to release them again finds none, and that is no theft.
func TestLocksReleaseWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		locks := mustAll(t, managers[0], "a", "b", "c")
		lose(clients[0], releaseAllScript)
		err := locks.Release(t.Context())
		redistest.ErrorIf(t, err == nil || errors.Is(err, ErrLost), "the reply was lost: %v", err)
		redistest.OK(t, locks.Release(t.Context()))
		checkClean(t, clients[0])
	})
}

// AcquireAll gives up: one request removes what many attempts have in Redis.
func TestAcquireAllGivesUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{TTL: time.Minute})
		loadScripts(t, clients[0])
		farAway(clients[0], 40*time.Millisecond)
		lose(clients[0], allScript)
		sent := requestsOf(clients[0])
		if _, err := managers[0].AcquireAll(t.Context(), manyNames(100)...); err == nil {
			t.Fatal("the reply was not lost")
		}
		managers[0].Close()
		redistest.Equal(t, "requests to clean up:", sent(abandonScript), 1)
		checkClean(t, clients[0])
	})
}

// Redis answers later than a caller waits itself, or not at all: AcquireAll asks again, and takes all locks at once still.
func TestAcquireAllAsksAgain(t *testing.T) {
	for _, executed := range []bool{false, true} { // by the time that the caller gives up
		synctest.Test(t, func(t *testing.T) {
			managers, clients := nodes(t, 1, Options{})
			loadScripts(t, clients[0])
			late := true
			delay := func(_ context.Context, cmd redis.Cmder) error {
				if isScript(cmd, allScript) && late {
					late = false
					time.Sleep(directTimeout)
					return context.DeadlineExceeded
				}
				return nil
			}
			if executed {
				clients[0].AddHook(redistest.Hook{After: delay})
			} else {
				clients[0].AddHook(redistest.Hook{Before: delay})
			}
			sent := requestsOf(clients[0])
			locks := mustAll(t, managers[0], manyNames(1000)...)
			one, all := sent(acquireScript), sent(allScript)
			redistest.ErrorIf(t, one > 0 || all > 3, "%d requests for one lock, %d for all", one, all)
			for lock := range locks.Each() {
				if holder := clients[0].Get(t.Context(), managers[0].Key(lock.Name())).Val(); holder != lock.Token() {
					t.Fatalf("%s holds %q", lock.Name(), holder)
				}
			}
			redistest.OK(t, locks.Release(t.Context()))
			checkClean(t, clients[0])
		})
	}
}

// An earlier sending got all locks and was not answered; then another took one of them. AcquireAll waits for that one alone.
func TestAcquireAllLosesOneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{TTL: time.Minute})
		loadScripts(t, clients[0])
		late := true
		clients[0].AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, allScript) && late {
				late = false
				clients[1].Set(t.Context(), "Lock:b", "thief", time.Second)
				time.Sleep(directTimeout)
				return context.DeadlineExceeded
			}
			return nil
		}})
		start := time.Now()
		locks := mustAll(t, managers[0], "a", "b", "c")
		took := time.Since(start)
		redistest.ErrorIf(t, took > 2*time.Second, "it took %v", took)
		redistest.OK(t, locks.Release(t.Context()))
		checkClean(t, clients[0])
	})
}

// Redis stands still: each call ends a quarter of a second after its context, however many locks it is about.
func TestCallsEndInTime(t *testing.T) {
	type call = func(ctx context.Context, m *Manager, stop func()) error
	many := manyNames(100)
	calls := map[string]call{
		"do": func(ctx context.Context, m *Manager, stop func()) error {
			return m.Do(ctx, "a", func(ctx context.Context, _ *Lock) error {
				stop()
				<-ctx.Done()
				return context.Cause(ctx)
			})
		},
		"acquire": func(ctx context.Context, m *Manager, stop func()) error {
			stop()
			return second(m.Acquire(ctx, "a"))
		},
		"all at once": func(ctx context.Context, m *Manager, stop func()) error {
			stop()
			_, err := m.AcquireAll(ctx, many...)
			return err
		},
		"all, one after the other": func(ctx context.Context, m *Manager, stop func()) error {
			last := mustAcquire(t, m, many[99])
			last.KeepAlive()
			time.AfterFunc(time.Second, stop)
			_, err := m.AcquireAll(ctx, many...)
			return err
		},
		"release all": func(ctx context.Context, m *Manager, stop func()) error {
			locks, err := m.AcquireAll(ctx, many...)
			if err != nil {
				return nil
			}
			stop()
			return locks.Release(ctx)
		},
		"extend": func(ctx context.Context, m *Manager, stop func()) error {
			lock := mustAcquire(t, m, "a")
			lock.KeepAlive()
			time.Sleep(DefaultTTL/3 - time.Microsecond)
			stop()
			time.Sleep(2 * time.Microsecond) // an extension is under way
			return lock.Extend(ctx)
		},
	}
	for name, do := range calls {
		for _, cluster := range []bool{false, true} {
			for _, cancelled := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 120 * time.Millisecond, time.Second} {
				t.Run(fmt.Sprint(name, ", cluster ", cluster, ", ", cancelled), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						managers, clients := nodes(t, 1, Options{})
						managers[0].names.cluster = cluster
						var still atomic.Bool
						clients[0].AddHook(redistest.Hook{Before: func(ctx context.Context, _ redis.Cmder) error {
							if !still.Load() {
								return nil
							}
							deadline, _ := ctx.Deadline() // go-redis does not see that a context is cancelled
							time.Sleep(time.Until(deadline))
							return context.DeadlineExceeded
						}})
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						var ended time.Time
						err := do(ctx, managers[0], func() {
							still.Store(true)
							time.AfterFunc(cancelled, func() { ended = time.Now(); cancel() })
						})
						if took := time.Since(ended); err == nil || ended.IsZero() || took > 250*time.Millisecond {
							t.Errorf("%v after its context: %v", took, err)
						}
					})
				})
			}
		}
	}
}
