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

func TestAcquireOrWait(t *testing.T) {
	const poll = DefaultWaitPoll
	for _, tt := range []struct {
		name     string
		opts     WaitOptions
		holder   func(t *testing.T, client *redis.Client, lock *Lock) // nil: nobody holds it
		want     Outcome
		min, max time.Duration
	}{
		{"free", WaitOptions{}, nil, Acquired, 0, 0},
		{"released", WaitOptions{}, func(t *testing.T, _ *redis.Client, lock *Lock) {
			time.AfterFunc(time.Second, func() { _ = lock.Release(t.Context()) })
		}, Ended, time.Second, time.Second + poll},
		{"expired", WaitOptions{}, func(*testing.T, *redis.Client, *Lock) {
		}, Ended, DefaultTTL, DefaultTTL + poll},
		{"taken over", WaitOptions{}, func(t *testing.T, client *redis.Client, lock *Lock) {
			time.AfterFunc(time.Second, func() { client.Set(t.Context(), "Lock:a", "the next one", time.Hour) })
		}, Ended, time.Second, time.Second + poll},
		{"held on", WaitOptions{}, func(_ *testing.T, _ *redis.Client, lock *Lock) {
			lock.KeepAlive()
		}, TimedOut, DefaultWaitTimeout, DefaultWaitTimeout},
		{"held on, another wait", WaitOptions{Wait: 250 * time.Millisecond}, func(_ *testing.T, _ *redis.Client, lock *Lock) {
			lock.KeepAlive()
		}, TimedOut, 250 * time.Millisecond, 250 * time.Millisecond},
		{"a wait shorter than the poll", WaitOptions{Wait: 10 * time.Millisecond}, func(_ *testing.T, _ *redis.Client, lock *Lock) {
			lock.KeepAlive()
		}, TimedOut, 10 * time.Millisecond, 10 * time.Millisecond},
		{"another poll", WaitOptions{Poll: 2 * time.Second}, func(t *testing.T, _ *redis.Client, lock *Lock) {
			time.AfterFunc(time.Second, func() { _ = lock.Release(t.Context()) })
		}, Ended, 2 * time.Second, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, client := redistest.Mini(t)
				m := newManager(t, client, Options{})
				var held *Lock
				if tt.holder != nil {
					held = mustTry(t, newManager(t, redistest.MiniClient(t, r), Options{}), "a")
					tt.holder(t, client, held)
				}
				start := time.Now()
				outcome, lock, err := m.AcquireOrWait(t.Context(), "a", tt.opts)
				redistest.ErrorIf(t, outcome != tt.want || err != nil || (lock != nil) != (tt.want == Acquired),
					"%v, %v, %v; want %v", outcome, lock, err, tt.want)
				took := time.Since(start)
				redistest.ErrorIf(t, took < tt.min || took > tt.max, "took %v, want %v to %v", took, tt.min, tt.max)
				redistest.Equal(t, "it waits in the queue:", client.Exists(t.Context(), "Lock:a:Queue").Val(), 0)
				if lock != nil {
					_ = lock.Release(t.Context())
				}
				if held != nil {
					_ = held.Release(t.Context())
				}
			})
		})
	}
}

// The hold lasts for the TTL of its options, also after an extension.
func TestAcquireOrWaitTTL(t *testing.T) {
	for _, ttl := range []time.Duration{0, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			_, client := redistest.Mini(t)
			m := newManager(t, client, Options{TTL: time.Hour})
			want := ttl
			if ttl == 0 {
				want = DefaultWaitTTL
			}
			_, lock, err := m.AcquireOrWait(t.Context(), "a", WaitOptions{TTL: ttl})
			redistest.OK(t, err)
			check := func() {
				t.Helper()
				redistest.Equal(t, "deadline in", time.Until(lock.Deadline()), want)
				redistest.Equal(t, "TTL is", client.PTTL(t.Context(), m.Key("a")).Val(), want)
			}
			check()
			time.Sleep(want / 2)
			redistest.OK(t, lock.Extend(t.Context()))
			check()
			lock.KeepAlive()
			time.Sleep(time.Minute)
			redistest.OK(t, lock.Err())
			// Who waits in the queue gets it with a TTL of its own.
			var next *Lock
			var wg sync.WaitGroup
			wg.Go(func() { next, err = m.Acquire(t.Context(), "a") })
			synctest.Wait()
			redistest.OK(t, lock.Release(t.Context()))
			wg.Wait()
			redistest.OK(t, err)
			d := client.PTTL(t.Context(), m.Key("a")).Val()
			redistest.ErrorIf(t, d < time.Hour-time.Second, "the next holder's TTL is %v", d)
			_ = next.Release(t.Context())
			checkClean(t, client)
		})
	}
}

// Waiters in the queue come first, and keep their positions.
func TestAcquireOrWaitDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := newManager(t, client, Options{Poll: time.Second})
		mustTry(t, m, "a")
		var wg sync.WaitGroup
		wg.Go(func() {
			lock, err := m.Acquire(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Second)
			_ = lock.Release(t.Context())
		})
		time.Sleep(10 * time.Millisecond)
		client.Del(t.Context(), m.Key("a"))
		start := time.Now()
		outcome, _, err := m.AcquireOrWait(t.Context(), "a", WaitOptions{})
		redistest.ErrorIf(t, outcome != Ended || err != nil, "%v, %v", outcome, err)
		took := time.Since(start)
		redistest.ErrorIf(t, took < time.Second, "the waiter held it for 1s, ended after %v", took)
		wg.Wait()
		checkClean(t, client)
	})
}

func TestAcquireOrWaitGivesUp(t *testing.T) {
	reason := errors.New("the player closed the window")
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := newManager(t, client, Options{TTL: time.Minute})
		holder := mustTry(t, m, "a")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reason)
		defer cancel()
		if outcome, _, err := m.AcquireOrWait(ctx, "a", WaitOptions{}); outcome != TimedOut || !errors.Is(err, reason) || !errors.Is(err, ErrHeld) {
			t.Errorf("cancelled: %v, %v", outcome, err)
		}
		var lost atomic.Bool
		client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if cmd.Name() == "get" || strings.HasPrefix(cmd.Name(), "eval") && lost.CompareAndSwap(false, true) {
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		_, _, err := m.AcquireOrWait(t.Context(), "b", WaitOptions{})
		redistest.ErrorIf(t, !errors.Is(err, io.ErrUnexpectedEOF), "the reply was lost: %v", err)
		if _, _, err := m.AcquireOrWait(t.Context(), "a", WaitOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the reply to a look was lost: %v", err)
		}
		redistest.OK(t, holder.Release(t.Context()))
		checkClean(t, client)
		mustTry(t, m, "a")
		time.AfterFunc(50*time.Millisecond, m.Close)
		if _, _, err := m.AcquireOrWait(t.Context(), "a", WaitOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("closed while it waits: %v", err)
		}
		if _, _, err := m.AcquireOrWait(t.Context(), "b", WaitOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestAcquireOrWaitBadInput(t *testing.T) {
	_, client := redistest.Mini(t)
	sent := 0
	client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error { sent++; return nil }})
	m := newManager(t, client, Options{})
	for _, tt := range []struct {
		name string
		opts WaitOptions
		says string
	}{
		{"", WaitOptions{}, "name"},
		{"a", WaitOptions{TTL: -1}, "TTL"},
		{"a", WaitOptions{TTL: 1500 * time.Microsecond}, "TTL"},
		{"a", WaitOptions{Wait: -1}, "Wait"},
		{"a", WaitOptions{Poll: -1}, "Poll"},
	} {
		if _, _, err := m.AcquireOrWait(t.Context(), tt.name, tt.opts); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q, %+v: %v, want an error that names %s", tt.name, tt.opts, err, tt.says)
		}
	}
	redistest.ErrorIf(t, sent != 0, "%d commands were sent", sent)
	for outcome, want := range map[Outcome]string{
		TimedOut: "timed out", Acquired: "acquired", Ended: "ended", 7: "Outcome(7)",
	} {
		got := outcome.String()
		redistest.ErrorIf(t, got != want, "%d is %q, want %q", int(outcome), got, want)
	}
}
