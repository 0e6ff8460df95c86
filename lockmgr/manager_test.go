package lockmgr

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

func newManager(t testing.TB, client redis.UniversalClient, opts Options) *Manager {
	t.Helper()
	m, err := New(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	redistest.EndInTime(t, "closing the Manager", m.Close)
	return m
}

// onBoth runs a test on miniredis and on a real redis-server.
func onBoth(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	t.Run("mini", func(t *testing.T) {
		_, client := redistest.Mini(t)
		test(t, client)
	})
	t.Run("real", func(t *testing.T) {
		test(t, redistest.Start(t).Client())
	})
}

// askAs asks once for the lock "a" under a token of the test's.
func askAs(t testing.TB, m *Manager, token string, keep time.Duration) answer {
	t.Helper()
	s := m.newSlot("a")
	s.token = token
	a, err := s.acquire(t.Context(), keep)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestHoldAndGiveBack(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{Prefix: "LockRoom:"})
		before := time.Now()
		lock, err := m.Acquire(ctx, "42")
		if err != nil {
			t.Fatal(err)
		}
		if got := client.Get(ctx, "LockRoom:42").Val(); got != lock.Token() || !strings.HasPrefix(got, "42:") {
			t.Fatalf("LockRoom:42 holds %q, the token is %q", got, lock.Token())
		}
		if ttl := client.PTTL(ctx, "LockRoom:42").Val(); ttl <= 0 || ttl > DefaultTTL {
			t.Fatalf("TTL is %v", ttl)
		}
		if d := lock.Deadline(); d.Before(before.Add(DefaultTTL)) || d.After(time.Now().Add(DefaultTTL)) {
			t.Fatalf("deadline %v does not lie a TTL after the request", d)
		}
		if _, err := m.TryAcquire(ctx, "42"); !errors.Is(err, ErrHeld) {
			t.Fatalf("second holder: %v", err)
		}
		if other, err := m.TryAcquire(ctx, "43"); err != nil {
			t.Fatalf("another name: %v", err)
		} else if err := other.Release(ctx); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second call has nothing to do
			if err := lock.Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
		checkClean(t, client)
		if err := lock.Extend(ctx); !errors.Is(err, ErrReleased) {
			t.Fatalf("extend after release: %v", err)
		}
	})
}

func TestOnlyTheWholeTokenCounts(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{})
		lock, err := m.Acquire(ctx, "foo")
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{lock.Token() + "bar", lock.Token()[:len(lock.Token())-1], "foo:", ""} {
			client.Set(ctx, m.Key("foo"), other, time.Minute)
			s := m.newSlot("foo")
			s.token = lock.Token()
			lock := newLock(&s, DefaultTTL, &grant{since: time.Now(), lasts: DefaultTTL})
			if err := lock.Extend(ctx); !errors.Is(err, ErrStolen) {
				t.Errorf("extend while the key holds %q: %v", other, err)
			}
			if err := lock.Release(ctx); !errors.Is(err, ErrStolen) {
				t.Errorf("release while the key holds %q: %v", other, err)
			}
			if got := client.Get(ctx, m.Key("foo")).Val(); got != other {
				t.Errorf("the key held %q and now %q", other, got)
			}
		}
	})
}

func TestSameTokenAskingAgainHasSucceeded(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{TTL: time.Minute})
		for range 2 {
			if a := askAs(t, m, "a:token", 0); a.grant == nil {
				t.Fatal("not taken")
			}
			client.PExpire(ctx, m.Key("a"), time.Second) // the second try starts the TTL anew
		}
		if a := askAs(t, m, "a:token", 0); a.grant == nil {
			t.Fatal("not taken again")
		}
		if ttl := client.PTTL(ctx, m.Key("a")).Val(); ttl <= time.Second {
			t.Fatalf("TTL is %v after the last try", ttl)
		}
		if a := askAs(t, m, "a:other", 0); a.grant != nil {
			t.Fatal("another token took a held lock")
		}
	})
}

// What the client reports as lost was executed: nothing may stay behind.
func TestLostReplies(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{TTL: time.Minute})
		lose := 0
		client.AddHook(redistest.Hook{After: func(context.Context, redis.Cmder) error {
			if lose > 0 {
				lose--
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		warm, err := m.Acquire(ctx, "warm") // loads the scripts
		if err != nil || warm.Extend(ctx) != nil || warm.Release(ctx) != nil {
			t.Fatal("warm-up failed")
		}

		lose = 1
		if _, err := m.Acquire(ctx, "a"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("acquire: %v", err)
		}
		if n := client.Exists(ctx, m.Key("a")).Val(); n != 0 {
			t.Fatal("the acquire whose reply was lost left its lock behind")
		}

		lock, err := m.Acquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		lose = 1
		if err := lock.Extend(ctx); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("extend: %v", err)
		}
		if err := lock.Extend(ctx); err != nil {
			t.Fatalf("extend again: %v", err)
		}
		lose = 1
		if err := lock.Release(ctx); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("release: %v", err)
		}
		if err := lock.Release(ctx); err != nil {
			t.Fatalf("release again: %v", err)
		}
	})
}

func TestCancelledAcquireLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{TTL: time.Minute})
		reason := errors.New("the player closed the window")

		t.Run("before", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(reason)
			if _, err := m.Acquire(ctx, "a"); !errors.Is(err, reason) {
				t.Fatalf("acquire: %v", err)
			}
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
			if _, err := m.Acquire(ctx, "a"); !errors.Is(err, reason) {
				t.Fatalf("acquire: %v", err)
			}
		})
		t.Run("while it waits", func(t *testing.T) {
			holder, err := m.Acquire(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
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
			if err := holder.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		checkClean(t, client)
	})
}

// checkClean expects nothing in Redis but the last fences, which go by themselves.
func checkClean(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	for _, key := range client.Keys(t.Context(), "*").Val() {
		if ttl := client.PTTL(t.Context(), key).Val(); !strings.HasSuffix(key, ":Fence") || ttl <= 0 {
			t.Errorf("%s is left over (TTL %v)", key, ttl)
		}
	}
}

// The TTL is over, in virtual time: the next one gets in, and the old holder
// can neither extend nor release.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		ctx := t.Context()
		m := newManager(t, client, Options{})
		start := time.Now()
		stale, err := m.Acquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		next, err := m.Acquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited < DefaultTTL || waited > DefaultTTL+DefaultPoll {
			t.Fatalf("a dead holder blocked for %v", waited)
		}
		if err := stale.Extend(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("extend: %v", err)
		}
		if err := stale.Release(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("release: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := next.Extend(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // past the first deadline, not past the second
		if time.Now().After(next.Deadline()) {
			t.Errorf("extend did not move the deadline")
		}
		if err := next.Release(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func TestExpiredAndGoneIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		lock, err := newManager(t, client, Options{}).Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultTTL + time.Millisecond)
		if err := lock.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Fatalf("release after the TTL: %v", err)
		}
	})
}

// Eight managers with clients of their own count to a number that needs every
// read-modify-write to be alone.
func TestMutualExclusion(t *testing.T) {
	server := redistest.Start(t)
	const managers, rounds = 8, 40
	var wg sync.WaitGroup
	for range managers {
		client := server.Client()
		m := newManager(t, client, Options{Poll: time.Millisecond})
		wg.Go(func() {
			for range rounds {
				lock, err := m.Acquire(t.Context(), "counter")
				if err != nil {
					t.Error(err)
					return
				}
				n, err := client.Get(t.Context(), "n").Int()
				if err != nil && err != redis.Nil {
					t.Error(err)
				}
				client.Set(t.Context(), "n", n+1, 0)
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n, _ := server.Client().Get(t.Context(), "n").Int(); n != managers*rounds {
		t.Fatalf("counted to %d, want %d", n, managers*rounds)
	}
}

// SCRIPT FLUSH and a new server forget the scripts: the next call brings them.
func TestScriptsAreForgotten(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	m := newManager(t, client, Options{})
	for range 2 {
		lock, err := m.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		client.ScriptFlush(t.Context())
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		server.Restart()
	}
}

func TestBadInput(t *testing.T) {
	_, client := redistest.Mini(t)
	sent := 0
	client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error { sent++; return nil }})
	for _, tt := range []struct {
		client redis.UniversalClient
		opts   Options
		names  string
	}{
		{nil, Options{}, "client"},
		{client, Options{TTL: -1}, "TTL"},
		{client, Options{TTL: time.Microsecond}, "TTL"},
		{client, Options{TTL: 1500 * time.Microsecond}, "TTL"},
		{client, Options{Poll: -1}, "Poll"},
		{client, Options{Poll: time.Minute}, "Poll"},
		{client, Options{Claim: -1}, "Claim"},
		{client, Options{Claim: time.Minute}, "Claim"},
		{client, Options{MaxWaiters: -1}, "MaxWaiters"},
		{client, Options{Prefix: "a{b}"}, "Prefix"},
	} {
		if _, err := New(tt.client, tt.opts); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("New(%v): %v, want an error that names %s", tt.opts, err, tt.names)
		}
	}
	m := newManager(t, client, Options{})
	for _, name := range []string{"", strings.Repeat("x", MaxName+1), "a:Queue", "a:Fence"} {
		if _, err := m.Acquire(t.Context(), name); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "name") {
			t.Errorf("Acquire: %v", err)
		}
		if _, err := m.TryAcquire(t.Context(), name); !errors.Is(err, ErrInvalid) {
			t.Errorf("TryAcquire: %v", err)
		}
	}
	if sent != 0 {
		t.Errorf("%d commands were sent", sent)
	}
}
