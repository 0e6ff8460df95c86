package lockmgr

import (
	"context"
	"errors"
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
					locks, err := m.AcquireAll(t.Context(), want...)
					if err != nil {
						t.Error(err)
						return
					}
					for _, name := range want {
						n := held[name].Add(1)
						redistest.ErrorIf(t, n != 1, "%s is held by %d", name, n)
					}
					for _, name := range want {
						held[name].Add(-1)
					}
					if err := locks.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	checkClean(t, server.Client())
}

func TestAcquireAllAtOnce(t *testing.T) {
	_, client := redistest.Mini(t)
	m := newManager(t, client, Options{})
	for range 2 {
		var commands atomic.Int32
		client.AddHook(redistest.Hook{After: func(context.Context, redis.Cmder) error { commands.Add(1); return nil }})
		before := time.Now()
		locks := mustAll(t, m, "c", "a", "b", "a")
		if n := commands.Load(); n > 2 { // the first time the script has to be brought
			t.Errorf("%d requests for locks that were free", n)
		}
		got := namesOf(locks)
		redistest.ErrorIf(t, !slices.Equal(got, []string{"a", "b", "c"}), "order is %v", got)
		if d := locks.Deadline(); d.Before(before.Add(DefaultTTL)) || d.After(time.Now().Add(DefaultTTL)) {
			t.Errorf("deadline %v does not lie a TTL after the request", d)
		}
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
		synctest.Test(t, func(t *testing.T) {
			_, client := redistest.Mini(t)
			m := newManager(t, client, Options{TTL: time.Minute})
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
		synctest.Test(t, func(t *testing.T) {
			r, client := redistest.Mini(t)
			m := newManager(t, client, Options{TTL: time.Minute})
			if locks, err := m.AcquireAll(t.Context(), "a", "b"); err != nil || locks.Release(t.Context()) != nil {
				t.Fatal("warm-up failed")
			}
			if lost > 1 {
				other := mustTry(t, newManager(t, redistest.MiniClient(t, r), Options{}), "a")
				time.AfterFunc(3*DefaultPoll/2, func() { _ = other.Release(t.Context()) })
			}
			requests := 0
			client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
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
			checkClean(t, client)
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
		var order []string
		var wg sync.WaitGroup
		wg.Go(func() {
			lock, err := first.Acquire(t.Context(), "b")
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, "waiter")
			time.Sleep(time.Second)
			_ = lock.Release(t.Context())
		})
		time.Sleep(10 * time.Millisecond)
		client.Del(t.Context(), m.Key("b")) // as if it had expired: nobody is woken
		locks := mustAll(t, m, "a", "b")
		order = append(order, "all")
		wg.Wait()
		redistest.ErrorIf(t, !slices.Equal(order, []string{"waiter", "all"}), "order is %v", order)
		_ = locks.Release(t.Context())
		checkClean(t, client)
	})
}

func TestAcquireAllBadInput(t *testing.T) {
	_, client := redistest.Mini(t)
	sent := 0
	client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error { sent++; return nil }})
	m := newManager(t, client, Options{})
	for _, tt := range []struct {
		names []string
		says  string
	}{
		{nil, "names is empty"},
		{[]string{"a", ""}, "lockmgr: names[1]: name"},
		{[]string{strings.Repeat("x", 513), "a"}, "lockmgr: names[0]: name"},
	} {
		if _, err := m.AcquireAll(t.Context(), tt.names...); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v, want an error that says %s", tt.names, err, tt.says)
		}
	}
	m.Close()
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		redistest.ErrorIs(t, "of a closed manager", redistest.Err(m.AcquireAll(t.Context(), names...)), ErrClosed)
	}
	redistest.ErrorIf(t, sent != 0, "%d commands were sent", sent)
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
