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

// New refuses options that would break waiting, by their names, and derives the defaults from
// what is given.
func TestPollAndClaim(t *testing.T) {
	_, client := redistest.Mini(t)
	for _, tt := range []struct {
		opts  Options
		wrong string
	}{
		{Options{}, ""},
		{Options{TTL: time.Millisecond}, ""},
		{Options{TTL: 8 * time.Millisecond}, ""},
		{Options{Poll: time.Second}, ""},
		{Options{Poll: time.Minute, TTL: time.Hour, Claim: time.Hour}, "Poll"},
		{Options{Poll: 16 * time.Second, TTL: time.Hour, Claim: time.Hour}, "Poll"},
		{Options{Poll: 250 * time.Millisecond, Claim: 250 * time.Millisecond}, "Poll"},
		{Options{Poll: 3 * time.Second}, "Poll"},
		{Options{Poll: -1}, "Poll"},
		{Options{Claim: 4 * time.Second}, "Claim"},
	} {
		m, err := New(client, tt.opts)
		if err == nil {
			if o := m.opts; o.Poll >= o.Claim || o.Claim > o.TTL || o.Poll <= 0 {
				t.Errorf("%+v became Poll %v, Claim %v, TTL %v", tt.opts, o.Poll, o.Claim, o.TTL)
			}
			m.Close()
		}
		if tt.wrong == "" != (err == nil) || err != nil && !errors.Is(err, ErrInvalid) || !contains(err, tt.wrong) {
			t.Errorf("%+v: %v", tt.opts, err)
		}
	}
}

func contains(err error, field string) bool {
	return err == nil || len(fmt.Sprint(err)) > 0 && fmt.Sprint(err)[len("lockmgr: "):len("lockmgr: ")+len(field)] == field
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
		if err := call(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustRelease(t, lock)
	redistest.OK(t, all.Release(t.Context()))
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
	for _, name := range []string{"", strings.Repeat("x", maxName+1), "a:Queue", "a:Fence"} {
		if _, err := m.Acquire(t.Context(), name); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `": name `) {
			t.Errorf("Acquire: %v", err)
		}
		redistest.ErrorIs(t, "TryAcquire", redistest.Err(m.TryAcquire(t.Context(), name)), ErrInvalid)
	}
	if _, err := m.AcquireAll(t.Context(), numbered(maxNames+1)...); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "1001") {
		t.Errorf("AcquireAll of too many: %v", err)
	}
	redistest.ErrorIf(t, sent != 0, "%d commands were sent", sent)
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
		if got := n.of(name).keys; !slices.Equal(got, n.keys(name)) {
			t.Fatalf("the keys of %q are %q", name, got)
		}
		redistest.FatalIf(t, len(n.recent) > maxRecent, "the keys of %d locks are kept", len(n.recent))
	}
}
