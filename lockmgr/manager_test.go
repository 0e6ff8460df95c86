package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

func TestHoldAndGiveBack(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{Prefix: "LockRoom:"})
		before := time.Now()
		lock := mustAcquire(t, m, "42")
		if got := client.Get(ctx, "LockRoom:42").Val(); got != lock.Token() || !strings.HasPrefix(got, "42:") {
			t.Fatalf("LockRoom:42 holds %q, the token is %q", got, lock.Token())
		}
		ttl := client.PTTL(ctx, "LockRoom:42").Val()
		redistest.FatalIf(t, ttl <= 0 || ttl > DefaultTTL, "TTL is %v", ttl)
		if d := lock.Deadline(); d.Before(before.Add(DefaultTTL)) || d.After(time.Now().Add(DefaultTTL)) {
			t.Fatalf("deadline %v does not lie a TTL after the request", d)
		}
		redistest.ErrorIs(t, "second holder", redistest.Err(m.TryAcquire(ctx, "42")), ErrHeld)
		if other, err := m.TryAcquire(ctx, "43"); err != nil {
			t.Fatalf("another name: %v", err)
		} else if err := other.Release(ctx); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second call has nothing to do
			redistest.OK(t, lock.Release(ctx))
		}
		checkClean(t, client)
		redistest.ErrorIs(t, "extend after release", lock.Extend(ctx), ErrReleased)
	})
}

func TestOnlyTheWholeTokenCounts(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{})
		lock := mustAcquire(t, m, "foo")
		for _, other := range []string{lock.Token() + "bar", lock.Token()[:len(lock.Token())-1], "foo:", ""} {
			client.Set(ctx, m.Key("foo"), other, time.Minute)
			s := new(Slot)
			s.init(m, "foo")
			lock := newLock(s, DefaultTTL, &grant{token: lock.Token(), since: time.Now(), lasts: DefaultTTL})
			err := lock.Extend(ctx)
			redistest.ErrorIf(t, !errors.Is(err, ErrStolen), "extend while the key holds %q: %v", other, err)
			err = lock.Release(ctx)
			redistest.ErrorIf(t, !errors.Is(err, ErrStolen), "release while the key holds %q: %v", other, err)
			got := client.Get(ctx, m.Key("foo")).Val()
			redistest.ErrorIf(t, got != other, "the key held %q and now %q", other, got)
		}
	})
}

func TestSameTokenAskingAgainHasSucceeded(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{TTL: time.Minute})
		for range 2 {
			held, _ := askAs(t, m, "a:token")
			redistest.FatalIf(t, !held, "not taken")
			client.PExpire(ctx, m.Key("a"), time.Second) // the second try starts the TTL anew
		}
		held, _ := askAs(t, m, "a:token")
		redistest.FatalIf(t, !held, "not taken again")
		ttl := client.PTTL(ctx, m.Key("a")).Val()
		redistest.FatalIf(t, ttl <= time.Second, "TTL is %v after the last try", ttl)
		if held, _ := askAs(t, m, "a:other"); held {
			t.Fatal("another token took a held lock")
		}
	})
}

// SCRIPT FLUSH and a new server forget the scripts: the next call sends them again.
func TestScriptsAreForgotten(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	m := newManager(t, client, Options{})
	for range 2 {
		lock := mustAcquire(t, m, "a")
		client.ScriptFlush(t.Context())
		redistest.OK(t, lock.Release(t.Context()))
		server.Restart()
	}
}

// New derives the defaults from what is given.
func TestPollAndClaim(t *testing.T) {
	_, client := redistest.Mini(t)
	for _, opts := range []Options{
		{}, {TTL: time.Millisecond}, {TTL: 8 * time.Millisecond}, {Poll: time.Second}, {Poll: 14 * time.Second, TTL: time.Hour},
	} {
		o := newManager(t, client, opts).opts
		redistest.ErrorIf(t, o.Poll >= o.Claim || o.Claim > o.TTL || o.Poll <= 0,
			"%+v became Poll %v, Claim %v, TTL %v", opts, o.Poll, o.Claim, o.TTL)
	}
}

// A nil context is an invalid argument.
func TestNilContexts(t *testing.T) {
	_, client := redistest.Mini(t)
	m := newManager(t, client, Options{})
	lock := mustAcquire(t, m, "a")
	all := mustAll(t, m, "b", "c")
	var none context.Context
	for name, call := range map[string]func() error{
		"Acquire":       func() error { return second(m.Acquire(none, "x")) },
		"TryAcquire":    func() error { return second(m.TryAcquire(none, "x")) },
		"AcquireAll":    func() error { _, err := m.AcquireAll(none, "x", "y"); return err },
		"AcquireOrWait": func() error { _, _, err := m.AcquireOrWait(none, "x", WaitOptions{}); return err },
		"Do":            func() error { return m.Do(none, "x", func(context.Context, *Lock) error { return nil }) },
		"Do nothing":    func() error { return m.Do(t.Context(), "x", nil) },
		"Extend":        func() error { return lock.Extend(none) },
		"Release":       func() error { return lock.Release(none) },
		"Locks.Release": func() error { return all.Release(none) },
		"Run":           func() error { return m.Run(none, extendScript, "x", nil).Err() },
		"Context": func() error {
			ctx, cancel := lock.Context(none)
			cancel()
			return context.Cause(ctx)
		},
	} {
		err := call()
		redistest.ErrorIf(t, !errors.Is(err, ErrInvalid), "%s: %v", name, err)
	}
	mustRelease(t, lock)
	redistest.OK(t, all.Release(t.Context()))
}

func TestBadInput(t *testing.T) {
	_, client := redistest.Mini(t)
	sent := counted(client, nil)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	for _, tt := range []struct {
		client redis.UniversalClient
		opts   Options
		names  string
	}{
		{nil, Options{}, "client is"},
		{(*redis.Client)(nil), Options{}, "client is"},
		{(*redis.ClusterClient)(nil), Options{}, "client is"},
		{ring, Options{}, "client is"},
		{client, Options{TTL: -1}, "TTL"},
		{client, Options{TTL: time.Microsecond}, "TTL"},
		{client, Options{TTL: 1500 * time.Microsecond}, "TTL"},
		{client, Options{Poll: -1}, "Poll"},
		{client, Options{Poll: time.Minute}, "Poll"},
		{client, Options{Poll: time.Minute, TTL: time.Hour, Claim: time.Hour}, "Poll"},
		{client, Options{Poll: 16 * time.Second, TTL: time.Hour, Claim: time.Hour}, "Poll"},
		{client, Options{Poll: DefaultClaim, Claim: DefaultClaim}, "Poll"},
		{client, Options{Poll: DefaultTTL}, "Poll"},
		{client, Options{Claim: 4 * time.Second}, "Claim"},
		{client, Options{Claim: -1}, "Claim"},
		{client, Options{Claim: time.Minute}, "Claim"},
		{client, Options{MaxWaiters: -1}, "MaxWaiters"},
		{client, Options{Prefix: "a{b}"}, "Prefix"},
	} {
		redistest.ErrorSays(t, "New", redistest.Err(New(tt.client, tt.opts)), ErrInvalid, "lockmgr: "+tt.names)
	}
	m := newManager(t, client, Options{})
	for _, name := range []string{"", strings.Repeat("x", maxName+1), "a:Queue", "a:Fence"} {
		redistest.ErrorSays(t, "Acquire", second(m.Acquire(t.Context(), name)), ErrInvalid, `": name `)
		redistest.ErrorIs(t, "TryAcquire", redistest.Err(m.TryAcquire(t.Context(), name)), ErrInvalid)
	}
	redistest.Equal(t, "commands sent:", sent.Load(), 0)
}

// AcquireAll takes as many locks as it promises.
func TestAcquireAllOfTheMost(t *testing.T) {
	client := redistest.Start(t).Client()
	all, err := newManager(t, client, Options{TTL: time.Minute}).AcquireAll(t.Context(), numbered(maxNames)...)
	redistest.OK(t, err)
	redistest.OK(t, all.Release(t.Context()))
}

func numbered(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

// The keys of locks that were used of late are kept: of a bounded number, and those of each lock its own.
func TestNames_KeepsKeysOfFew(t *testing.T) {
	n := newNames(Options{}.withDefaults(), false)
	for i := range 3 * maxRecent {
		name := fmt.Sprint(i % (maxRecent + 10))
		got := n.of(name).keys
		redistest.FatalIf(t, !slices.Equal(got, n.keys(name)), "the keys of %q are %q", name, got)
		redistest.FatalIf(t, len(n.recent) > maxRecent, "the keys of %d locks are kept", len(n.recent))
	}
}

// A server that says that it is too old is refused at first use.
func TestAnOldServerIsRefused(t *testing.T) {
	for version, refused := range map[string]bool{"6.2.14": true, "7.0.15": false, "10.1.0": false, "": false} {
		client := redistest.Start(t).Client()
		client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if info, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
				info.SetVal("# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n")
			}
			return nil
		}})
		_, err := newManager(t, client, Options{}).Acquire(t.Context(), "a")
		if refused {
			redistest.ErrorSays(t, "acquire", err, ErrInvalid, version)
		} else {
			redistest.OK(t, err)
		}
	}
}

// One call waits for a shorter time than its work takes, and holds for longer than others.
func TestDoWith(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		opts := AcquireOptions{Wait: 5 * time.Second, TTL: time.Hour}
		holder := mustAcquire(t, managers[0], "a")
		holder.KeepAlive()
		start := time.Now()
		err := managers[1].DoWith(t.Context(), "a", opts, func(context.Context, *Lock) error { t.Error("it ran"); return nil })
		if waited := time.Since(start); !errors.Is(err, ErrHeld) || !errors.Is(err, context.DeadlineExceeded) || waited != opts.Wait {
			t.Errorf("after %v: %v", waited, err)
		}
		mustRelease(t, holder)
		err = managers[1].DoWith(t.Context(), "a", opts, func(ctx context.Context, lock *Lock) error {
			if ttl := clients[0].PTTL(t.Context(), "Lock:a").Val(); ttl != opts.TTL || time.Until(lock.Deadline()) != opts.TTL {
				t.Errorf("TTL is %v, the deadline in %v", ttl, time.Until(lock.Deadline()))
			}
			time.Sleep(10 * opts.Wait)
			return ctx.Err()
		})
		redistest.ErrorIf(t, err != nil, "work that takes longer than the waiting: %v", err)
		for _, opts := range []AcquireOptions{{Wait: -1}, {TTL: time.Millisecond}, {TTL: time.Second + 1}} {
			_, err := managers[0].AcquireWith(t.Context(), "a", opts)
			redistest.ErrorIf(t, !errors.Is(err, ErrInvalid), "%+v: %v", opts, err)
		}
	})
}

// A release hands the lock to the next waiter of its process for that waiter's TTL.
func TestAPassedHoldHasItsOwnTTL(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		first := mustAcquire(t, managers[0], "a")
		got := make(chan *Lock, 1)
		go func() {
			lock, err := managers[0].AcquireWith(t.Context(), "a", AcquireOptions{TTL: time.Minute})
			redistest.OK(t, err)
			got <- lock
		}()
		time.Sleep(time.Second)
		mustRelease(t, first)
		lock := redistest.Receive(t, got, "the waiter")
		redistest.Equal(t, "TTL is", clients[0].PTTL(t.Context(), "Lock:a").Val(), time.Minute)
		mustRelease(t, lock)
	})
}
