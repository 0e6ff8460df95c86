package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// farAway makes requests of a client take so long.
func farAway(client *redis.Client, roundTrip time.Duration) {
	half := func(context.Context, redis.Cmder) error { time.Sleep(roundTrip / 2); return nil }
	client.AddHook(redistest.Hook{Before: half, After: half})
}

// Many locks are released as fast as one, and none is called lost that was not.
func TestLocksReleaseTogether(t *testing.T) {
	for _, cluster := range []bool{false, true} { // with a slot for each lock
		virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
			managers[0].names.cluster = cluster
			loadScripts(t, clients[0])
			locks := mustAll(t, managers[0], numbered(100)...)
			const roundTrip = 40 * time.Millisecond
			farAway(clients[0], roundTrip)
			one, all := counted(clients[0], releaseScript), counted(clients[0], releaseAllScript)
			time.Sleep(time.Until(locks.Deadline()) - 2*roundTrip)
			start := time.Now()
			redistest.OK(t, locks.Release(t.Context()))
			took := time.Since(start)
			redistest.ErrorIf(t, took > 3*roundTrip, "it took %v", took) // two to make a connection
			n := one.Load() + all.Load()
			redistest.ErrorIf(t, n != 1 && !cluster, "%d requests", n)
		})
	}
}

// All holds are over before Redis is asked.
func TestLocksReleaseEndsAllHoldsFirst(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m := managers[0]
		m.names.cluster = true // so each lock is in a slot of its own
		locks := mustAll(t, m, "a", "b", "c")
		beforeScript(clients[0], releaseScript, func(context.Context) error {
			for lock := range locks.Each() {
				err := lock.Err()
				redistest.ErrorIf(t, err != ErrReleased, "%s meanwhile: %v", lock.Name(), err)
			}
			time.Sleep(time.Second)
			return nil
		})
		start := time.Now()
		redistest.OK(t, locks.Release(t.Context()))
		took := time.Since(start)
		redistest.ErrorIf(t, took > 2*time.Second, "released after %v", took)
	})
}

// One request releases locks for which nobody waits, others of this process, and another process; a lock that was
// stolen, and one that cannot be released. Each has an outcome of its own.
func TestLocksReleaseEachToItsNext(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m, other := newManager(t, client, Options{TTL: time.Minute}), newManager(t, client, Options{TTL: time.Minute})
		locks := mustAll(t, m, "broken", "nobody", "other", "own", "stolen")
		got := []<-chan *Lock{acquiring(t, m, "own"), acquiring(t, other, "other")}
		awaitQueue(t, client, "own", 1)
		awaitQueue(t, client, "other", 1)
		client.Set(t.Context(), "Lock:broken:Queue", "no queue", 0)
		client.Set(t.Context(), "Lock:broken:Fence", 1, time.Minute) // without the mark: there may be a queue
		client.Set(t.Context(), "Lock:stolen", "thief", time.Minute)
		err := locks.Release(t.Context())
		if text := fmt.Sprint(err); !errors.Is(err, ErrStolen) || strings.Count(text, "\n") != 1 ||
			!strings.Contains(text, `release "stolen"`) || !strings.Contains(text, `release "broken": `) || !strings.Contains(text, "WRONGTYPE") {
			t.Errorf("release: %v", err)
		}
		for _, next := range got {
			lock := redistest.Receive(t, next, "a waiter to get the lock")
			redistest.OK(t, lock.Err())
			redistest.Equal(t, "the lock holds", client.Get(t.Context(), m.Key(lock.Name())).Val(), lock.Token())
			mustRelease(t, lock)
		}
		client.Del(t.Context(), "Lock:broken:Queue", "Lock:stolen")
		err = locks.Release(t.Context())
		redistest.ErrorIf(t, !errors.Is(err, ErrStolen) || strings.Contains(err.Error(), "broken"), "again: %v", err)
		checkClean(t, client)
	})
}

// The reply to a release of several locks is lost: to release them again finds none, and that is no theft.
func TestLocksReleaseWithoutAReply(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		locks := mustAll(t, managers[0], "a", "b", "c")
		lose(clients[0], releaseAllScript)
		err := locks.Release(t.Context())
		redistest.ErrorIf(t, err == nil || errors.Is(err, ErrLost), "the reply was lost: %v", err)
		redistest.OK(t, locks.Release(t.Context()))
	})
}

// AcquireAll gives up: one request removes what many attempts have in Redis.
func TestAcquireAllGivesUpTogether(t *testing.T) {
	virtually(t, 1, Options{TTL: time.Minute}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		loadScripts(t, clients[0])
		farAway(clients[0], 40*time.Millisecond)
		lose(clients[0], allScript)
		cleanUps := counted(clients[0], abandonScript)
		_, err := managers[0].AcquireAll(t.Context(), numbered(100)...)
		redistest.ErrorIs(t, "acquire", err, errLostReply)
		managers[0].Close()
		redistest.Equal(t, "requests to clean up:", cleanUps.Load(), 1)
	})
}

// Redis answers later than a caller waits itself, or not at all: AcquireAll asks again, and takes all locks at once still.
func TestAcquireAllAsksAgain(t *testing.T) {
	for _, executed := range []bool{false, true} { // by the time that the caller gives up
		virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
			loadScripts(t, clients[0])
			late := true
			delay := func(context.Context) error {
				if late {
					late = false
					time.Sleep(directTimeout)
					return context.DeadlineExceeded
				}
				return nil
			}
			map[bool]onScript{false: beforeScript, true: afterScript}[executed](clients[0], allScript, delay)
			one, all := counted(clients[0], acquireScript), counted(clients[0], allScript)
			locks := mustAll(t, managers[0], numbered(maxNames)...)
			redistest.ErrorIf(t, one.Load() > 0 || all.Load() > 3, "%d requests for one lock, %d for all", one.Load(), all.Load())
			for lock := range locks.Each() {
				holder := clients[0].Get(t.Context(), managers[0].Key(lock.Name())).Val()
				redistest.FatalIf(t, holder != lock.Token(), "%s holds %q", lock.Name(), holder)
			}
			redistest.OK(t, locks.Release(t.Context()))
		})
	}
}

// An earlier sending got all locks and was not answered; then another took one of them. AcquireAll waits for that one alone.
func TestAcquireAllLosesOneMeanwhile(t *testing.T) {
	virtually(t, 2, Options{TTL: time.Minute}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		loadScripts(t, clients[0])
		late := true
		afterScript(clients[0], allScript, func(context.Context) error {
			if late {
				late = false
				clients[1].Set(t.Context(), "Lock:b", "thief", time.Second)
				time.Sleep(directTimeout)
				return context.DeadlineExceeded
			}
			return nil
		})
		start := time.Now()
		locks := mustAll(t, managers[0], "a", "b", "c")
		took := time.Since(start)
		redistest.ErrorIf(t, took > 2*time.Second, "it took %v", took)
		redistest.OK(t, locks.Release(t.Context()))
	})
}

// Redis stands still: each call ends a quarter of a second after its context, however many locks it is about.
func TestCallsEndInTime(t *testing.T) {
	type call = func(ctx context.Context, m *Manager, stop func()) error
	many := numbered(100)
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
					virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
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
