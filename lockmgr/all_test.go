package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

func namesOf(locks *Locks) (names []string) {
	for lock := range locks.Each() {
		names = append(names, lock.Name())
	}
	return names
}

// Everybody wants several of the same locks, named in any order.
func TestAcquireAllNeverDeadlocks(t *testing.T) {
	server := redistest.Start(t)
	const managers, callers, rounds = 3, 4, 15
	names := []string{"a", "b", "c", "d"}
	held := map[string]*atomic.Int32{}
	for _, name := range names {
		held[name] = new(atomic.Int32)
	}
	var wg sync.WaitGroup
	for range managers {
		m := newManager(t, server.Client(), Options{TTL: 30 * time.Second})
		for range callers {
			wg.Go(func() {
				for range rounds {
					want := slices.Clone(names)
					rand.Shuffle(len(want), func(i, j int) { want[i], want[j] = want[j], want[i] })
					want = want[:2+rand.IntN(3)]
					locks := mustAll(t, m, want...)
					for _, name := range want {
						n := held[name].Add(1)
						redistest.ErrorIf(t, n != 1, "%s is held by %d", name, n)
					}
					for _, name := range want {
						held[name].Add(-1)
					}
					redistest.OK(t, locks.Release(t.Context()))
				}
			})
		}
	}
	wg.Wait()
	checkClean(t, server.Client())
}

func TestAcquireAllAtOnce(t *testing.T) {
	managers, clients := nodes(t, 1, Options{})
	m, client := managers[0], clients[0]
	loadScripts(t, client)
	for range 2 {
		commands := counted(client, nil)
		before := time.Now()
		locks := mustAll(t, m, "c", "a", "b", "a")
		redistest.Equal(t, "requests for locks that were free:", commands.Load(), 1)
		got := namesOf(locks)
		redistest.ErrorIf(t, !slices.Equal(got, []string{"a", "b", "c"}), "order is %v", got)
		d := locks.Deadline()
		redistest.ErrorIf(t, d.Before(before.Add(DefaultTTL)) || d.After(time.Now().Add(DefaultTTL)),
			"deadline %v does not lie a TTL after the request", d)
		for lock := range locks.Each() {
			got := client.Get(t.Context(), m.Key(lock.Name())).Val()
			redistest.ErrorIf(t, got != lock.Token(), "%s holds %q, the token is %q", lock.Name(), got, lock.Token())
			ttl := client.PTTL(t.Context(), m.Key(lock.Name())).Val()
			redistest.ErrorIf(t, ttl <= 0, "%s has TTL %v", lock.Name(), ttl)
			redistest.ErrorIf(t, locks.Lock(lock.Name()) != lock, "Lock(%q) is another", lock.Name())
		}
		redistest.ErrorIf(t, locks.Lock("d") != nil, "there is a lock that was not asked for")
		for range 2 {
			redistest.OK(t, locks.Release(t.Context()))
		}
		redistest.ErrorIs(t, "after the release", locks.Err(), ErrReleased)
		checkClean(t, client)
	}
}

func TestAcquireAllOrNone(t *testing.T) {
	reason := errors.New("the player closed the window")
	for _, held := range []string{"a", "b", "c"} {
		virtually(t, 1, Options{TTL: time.Minute}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
			m, client := managers[0], clients[0]
			holder := mustTry(t, m, held)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reason)
			defer cancel()
			if _, err := m.AcquireAll(ctx, "a", "b", "c"); !errors.Is(err, reason) || !errors.Is(err, ErrHeld) {
				t.Errorf("while %s is held: %v", held, err)
			}
			redistest.OK(t, holder.Release(t.Context()))
			checkClean(t, client)
			redistest.ErrorIs(t, "with a context that has ended", redistest.Err(m.AcquireAll(ctx, "a", "b")), reason)
		})
	}
}

// Redis has executed the request whose reply is lost: nothing may be left behind.
func TestAcquireAllLostReplies(t *testing.T) {
	for lost := 1; lost <= 4; lost++ { // which acquiring request; from the 2nd on, one lock is held at first
		virtually(t, 2, Options{TTL: time.Minute}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
			m := managers[0]
			loadScripts(t, clients[0])
			if lost > 1 {
				other := mustTry(t, managers[1], "a")
				time.AfterFunc(3*DefaultPoll/2, func() { _ = other.Release(t.Context()) })
			}
			requests := 0
			clients[0].AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
				if !strings.HasPrefix(cmd.Name(), "eval") {
					return nil
				}
				if requests++; requests == lost {
					return io.ErrUnexpectedEOF
				}
				return nil
			}})
			_, err := m.AcquireAll(t.Context(), "a", "b", "c")
			redistest.ErrorIf(t, !errors.Is(err, io.ErrUnexpectedEOF), "reply %d was lost: %v", lost, err)
			time.Sleep(time.Second) // the other holder has gone
		})
	}
}

// A lock that is free for a moment goes to the waiter in the queue.
func TestAcquireAllDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		first := newManager(t, redistest.MiniClient(t, r), Options{Poll: 100 * time.Millisecond})
		m := newManager(t, client, Options{Poll: time.Millisecond})
		mustTry(t, first, "b")
		got := acquiring(t, first, "b")
		time.Sleep(10 * time.Millisecond)
		client.Del(t.Context(), m.Key("b")) // as if it had expired: nobody is woken
		var waiter atomic.Bool
		go func() {
			lock := <-got
			waiter.Store(true)
			time.Sleep(time.Second)
			mustRelease(t, lock)
		}()
		locks := mustAll(t, m, "a", "b")
		redistest.ErrorIf(t, !waiter.Load(), "all came before the waiter")
		redistest.OK(t, locks.Release(t.Context()))
		checkClean(t, client)
	})
}

func TestAcquireAllBadInput(t *testing.T) {
	managers, clients := nodes(t, 1, Options{})
	m, sent := managers[0], counted(clients[0], nil)
	for _, tt := range []struct {
		names []string
		says  string
	}{
		{nil, "names is empty"},
		{[]string{"a", ""}, "lockmgr: names[1]: name"},
		{[]string{strings.Repeat("x", maxName+1), "a"}, "lockmgr: names[0]: name"},
		{numbered(maxNames + 1), "1001"},
	} {
		_, err := m.AcquireAll(t.Context(), tt.names...)
		redistest.ErrorSays(t, fmt.Sprint(tt.names), err, ErrInvalid, tt.says)
	}
	m.Close()
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		redistest.ErrorIs(t, "of a closed manager", redistest.Err(m.AcquireAll(t.Context(), names...)), ErrClosed)
	}
	redistest.Equal(t, "commands sent:", sent.Load(), 0)
}

// On Cluster one request takes locks of one slot only, and two names may be one.
func TestAcquireAllOnCluster(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t).Client()
	m := newManager(t, client, Options{TTL: 30 * time.Second})
	var commands atomic.Int32
	client.AddHook(redistest.Hook{After: func(context.Context, redis.Cmder) error { commands.Add(1); return nil }})
	for _, tt := range []struct {
		names, taken []string
		requests     int32 // once the scripts are known
	}{
		{[]string{"c", "b", "a"}, []string{"a", "b", "c"}, 3},
		{[]string{"y{t}", "x{t}"}, []string{"x{t}", "y{t}"}, 1},
		{[]string{"a", "{a}"}, []string{"a"}, 1},
	} {
		for _, known := range []bool{false, true} {
			commands.Store(0)
			locks := mustAll(t, m, tt.names...)
			n := commands.Load()
			redistest.ErrorIf(t, known && n != tt.requests, "%v took %d requests, want %d", tt.names, n, tt.requests)
			got := namesOf(locks)
			redistest.ErrorIf(t, !slices.Equal(got, tt.taken), "%v took %v, want %v", tt.names, got, tt.taken)
			redistest.ErrorIf(t, locks.Lock(tt.names[1]) == nil, "no lock %q", tt.names[1])
			redistest.OK(t, locks.Release(t.Context()))
		}
	}
	first := mustAll(t, m, "a", "b")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	redistest.ErrorIs(t, "while b is held", redistest.Err(m.AcquireAll(ctx, "b", "c", "0")), ErrHeld)
	for _, name := range []string{"c", "0"} {
		n := client.Exists(t.Context(), m.Key(name)).Val()
		redistest.ErrorIf(t, n != 0, "%s is left over", name)
	}
	redistest.OK(t, first.Release(t.Context()))
}

// AcquireAll keeps the locks that it has while it waits for the others. After that they last
// for one TTL.
func TestAcquireAllKeepsWhatItHas(t *testing.T) {
	virtually(t, 2, Options{Poll: 100 * time.Millisecond}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		m, other := managers[0], managers[1]
		last := mustTry(t, other, "c")
		last.KeepAlive()
		time.AfterFunc(time.Minute+time.Second/2, func() { _ = last.Release(t.Context()) })
		time.AfterFunc(59*time.Second, func() {
			for _, name := range []string{"a", "b"} {
				_, err := other.TryAcquire(t.Context(), name)
				redistest.ErrorIf(t, !errors.Is(err, ErrHeld), "%s while c is waited for: %v", name, err)
			}
		})
		locks := mustAll(t, m, "a", "b", "c")
		left := time.Until(locks.Deadline())
		redistest.ErrorIf(t, left < DefaultTTL/2 || left > DefaultTTL, "%v are left", left)
		redistest.OK(t, locks.Err())
		got := time.Now()
		redistest.Receive(t, locks.Lock("a").Done(), "the first hold to end")
		after := time.Since(got)
		redistest.ErrorIf(t, after != left, "over after %v, the deadline was in %v", after, left)
		redistest.ErrorIs(t, "after the deadline", locks.Err(), ErrExpired)
		_ = locks.Release(t.Context())

		locks = mustAll(t, m, "a", "b")
		for lock := range locks.Each() {
			lock.KeepAlive()
		}
		time.Sleep(time.Minute)
		redistest.OK(t, locks.Release(t.Context()))
	})
}

// The last lock is handed over, for a claim, just before AcquireAll returns: it is extended to a TTL as well.
func TestAcquireAllExtendsAClaim(t *testing.T) {
	virtually(t, 2, Options{Poll: 100 * time.Millisecond}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m, client := managers[0], clients[0]
		last := mustTry(t, managers[1], "b")
		time.AfterFunc(time.Millisecond, func() { _ = last.Release(t.Context()) })
		start := time.Now()
		locks := mustAll(t, m, "a", "b")
		took := time.Since(start)
		redistest.FatalIf(t, took > 100*time.Millisecond, "b was not handed over, but found free after %v", took)
		left, stays := time.Until(locks.Deadline()), client.PTTL(t.Context(), m.Key("b")).Val()
		redistest.ErrorIf(t, left < DefaultTTL/2 || stays < left, "%v are left, and %v in Redis", left, stays)
		redistest.OK(t, locks.Release(t.Context()))
	})
}

func TestAcquireAllLosesOneWhileWaiting(t *testing.T) {
	virtually(t, 1, Options{Poll: 100 * time.Millisecond}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m, client := managers[0], clients[0]
		last := mustTry(t, m, "c")
		last.KeepAlive()
		time.AfterFunc(5*time.Second, func() { client.Set(t.Context(), m.Key("b"), "thief", time.Minute) })
		start := time.Now()
		_, err := m.AcquireAll(t.Context(), "a", "b", "c")
		redistest.ErrorSays(t, "b was stolen", err, ErrStolen, `"b"`)
		after := time.Since(start)
		redistest.ErrorIf(t, after > 5*time.Second+DefaultTTL/3, "noticed after %v", after)
		redistest.Equal(t, "the thief's lock is gone:", client.Del(t.Context(), m.Key("b")).Val(), 1)
		redistest.OK(t, last.Release(t.Context()))
	})
}

// Release reports a hold that was lost, and still gives back the others.
func TestLocksReleaseAllTheSame(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m, client := managers[0], clients[0]
		locks := mustAll(t, m, "a", "b", "c")
		done := locks.Lock("b").Done()
		locks.Lock("b").KeepAlive()
		client.Del(t.Context(), m.Key("b"))
		redistest.Receive(t, done, "the hold to end")
		for range 2 {
			redistest.ErrorSays(t, "b was deleted", locks.Err(), ErrStolen, `"b"`)
			redistest.ErrorIs(t, "release", locks.Release(t.Context()), ErrStolen)
		}
	})
}

// Release reports a loss that nobody has noticed before.
func TestLocksReleaseTellsALoss(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		locks := mustAll(t, managers[0], "a", "b", "c")
		time.Sleep(DefaultTTL / 2)
		for _, name := range []string{"a", "c"} {
			redistest.OK(t, locks.Lock(name).Extend(t.Context()))
		}
		time.Sleep(DefaultTTL / 2)
		redistest.ErrorSays(t, "release", locks.Release(t.Context()), ErrExpired, `"b"`)
		redistest.ErrorSays(t, "b has expired", locks.Err(), ErrExpired, `"b"`)
	})
}
