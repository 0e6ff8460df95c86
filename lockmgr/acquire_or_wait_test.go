package lockmgr_test

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

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

func TestAcquireOrWait(t *testing.T) {
	const poll = lockmgr.DefaultWaitPoll
	for _, tt := range []struct {
		name     string
		opts     lockmgr.WaitOptions
		holder   func(t *testing.T, client *redis.Client, lock *lockmgr.Lock) // nil: nobody holds it
		want     lockmgr.Outcome
		min, max time.Duration
	}{
		{"free", lockmgr.WaitOptions{}, nil, lockmgr.Acquired, 0, 0},
		{"released", lockmgr.WaitOptions{}, func(t *testing.T, _ *redis.Client, lock *lockmgr.Lock) {
			time.AfterFunc(time.Second, func() { _ = lock.Release(t.Context()) })
		}, lockmgr.Ended, time.Second, time.Second + poll},
		{"expired", lockmgr.WaitOptions{}, func(*testing.T, *redis.Client, *lockmgr.Lock) {
		}, lockmgr.Ended, lockmgr.DefaultTTL, lockmgr.DefaultTTL + poll},
		{"taken over", lockmgr.WaitOptions{}, func(t *testing.T, client *redis.Client, lock *lockmgr.Lock) {
			time.AfterFunc(time.Second, func() { client.Set(t.Context(), "Lock:a", "the next one", time.Hour) })
		}, lockmgr.Ended, time.Second, time.Second + poll},
		{"held on", lockmgr.WaitOptions{}, func(_ *testing.T, _ *redis.Client, lock *lockmgr.Lock) {
			lock.KeepAlive()
		}, lockmgr.TimedOut, lockmgr.DefaultWaitTimeout, lockmgr.DefaultWaitTimeout},
		{"held on, another wait", lockmgr.WaitOptions{Wait: 250 * time.Millisecond}, func(_ *testing.T, _ *redis.Client, lock *lockmgr.Lock) {
			lock.KeepAlive()
		}, lockmgr.TimedOut, 250 * time.Millisecond, 250 * time.Millisecond},
		{"a wait shorter than the poll", lockmgr.WaitOptions{Wait: 10 * time.Millisecond}, func(_ *testing.T, _ *redis.Client, lock *lockmgr.Lock) {
			lock.KeepAlive()
		}, lockmgr.TimedOut, 10 * time.Millisecond, 10 * time.Millisecond},
		{"another poll", lockmgr.WaitOptions{Poll: 2 * time.Second}, func(t *testing.T, _ *redis.Client, lock *lockmgr.Lock) {
			time.AfterFunc(time.Second, func() { _ = lock.Release(t.Context()) })
		}, lockmgr.Ended, 2 * time.Second, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, client := redistest.Mini(t)
				m := manager(t, client, lockmgr.Options{})
				var held *lockmgr.Lock
				if tt.holder != nil {
					held = hold(t, manager(t, redistest.MiniClient(t, r), lockmgr.Options{}), "a")
					tt.holder(t, client, held)
				}
				start := time.Now()
				outcome, lock, err := m.AcquireOrWait(t.Context(), "a", tt.opts)
				if outcome != tt.want || err != nil || (lock != nil) != (tt.want == lockmgr.Acquired) {
					t.Errorf("%v, %v, %v; want %v", outcome, lock, err, tt.want)
				}
				if took := time.Since(start); took < tt.min || took > tt.max {
					t.Errorf("took %v, want %v to %v", took, tt.min, tt.max)
				}
				if n := client.Exists(t.Context(), "Lock:a:Queue").Val(); n != 0 {
					t.Error("it waits in the queue")
				}
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
			m := manager(t, client, lockmgr.Options{TTL: time.Hour})
			want := ttl
			if ttl == 0 {
				want = lockmgr.DefaultWaitTTL
			}
			_, lock, err := m.AcquireOrWait(t.Context(), "a", lockmgr.WaitOptions{TTL: ttl})
			redistest.OK(t, err)
			check := func() {
				t.Helper()
				if d := time.Until(lock.Deadline()); d != want {
					t.Errorf("deadline in %v, want %v", d, want)
				}
				if d := client.PTTL(t.Context(), m.Key("a")).Val(); d != want {
					t.Errorf("TTL is %v, want %v", d, want)
				}
			}
			check()
			time.Sleep(want / 2)
			redistest.OK(t, lock.Extend(t.Context()))
			check()
			lock.KeepAlive()
			time.Sleep(time.Minute)
			if err := lock.Err(); err != nil {
				t.Error(err)
			}
			// Who waits in the queue gets it with a TTL of its own.
			var next *lockmgr.Lock
			var wg sync.WaitGroup
			wg.Go(func() { next, err = m.Acquire(t.Context(), "a") })
			synctest.Wait()
			redistest.OK(t, lock.Release(t.Context()))
			wg.Wait()
			redistest.OK(t, err)
			if d := client.PTTL(t.Context(), m.Key("a")).Val(); d < time.Hour-time.Second {
				t.Errorf("the next holder's TTL is %v", d)
			}
			_ = next.Release(t.Context())
			nothingLeft(t, client)
		})
	}
}

// Waiters in the queue come first, and keep their positions.
func TestAcquireOrWaitDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := manager(t, client, lockmgr.Options{Poll: time.Second})
		hold(t, m, "a")
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
		outcome, _, err := m.AcquireOrWait(t.Context(), "a", lockmgr.WaitOptions{})
		if outcome != lockmgr.Ended || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		if took := time.Since(start); took < time.Second {
			t.Errorf("the waiter held it for 1s, ended after %v", took)
		}
		wg.Wait()
		nothingLeft(t, client)
	})
}

func TestAcquireOrWaitGivesUp(t *testing.T) {
	reason := errors.New("the player closed the window")
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := manager(t, client, lockmgr.Options{TTL: time.Minute})
		holder := hold(t, m, "a")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reason)
		defer cancel()
		if outcome, _, err := m.AcquireOrWait(ctx, "a", lockmgr.WaitOptions{}); outcome != lockmgr.TimedOut || !errors.Is(err, reason) || !errors.Is(err, lockmgr.ErrHeld) {
			t.Errorf("cancelled: %v, %v", outcome, err)
		}
		var lost atomic.Bool
		client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if cmd.Name() == "get" || strings.HasPrefix(cmd.Name(), "eval") && lost.CompareAndSwap(false, true) {
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		if _, _, err := m.AcquireOrWait(t.Context(), "b", lockmgr.WaitOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the reply was lost: %v", err)
		}
		if _, _, err := m.AcquireOrWait(t.Context(), "a", lockmgr.WaitOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the reply to a look was lost: %v", err)
		}
		if err := holder.Release(t.Context()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, client)
		hold(t, m, "a")
		time.AfterFunc(50*time.Millisecond, m.Close)
		if _, _, err := m.AcquireOrWait(t.Context(), "a", lockmgr.WaitOptions{}); !errors.Is(err, lockmgr.ErrClosed) {
			t.Errorf("closed while it waits: %v", err)
		}
		if _, _, err := m.AcquireOrWait(t.Context(), "b", lockmgr.WaitOptions{}); !errors.Is(err, lockmgr.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestAcquireOrWaitBadInput(t *testing.T) {
	_, client := redistest.Mini(t)
	sent := 0
	client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error { sent++; return nil }})
	m := manager(t, client, lockmgr.Options{})
	for _, tt := range []struct {
		name string
		opts lockmgr.WaitOptions
		says string
	}{
		{"", lockmgr.WaitOptions{}, "name"},
		{"a", lockmgr.WaitOptions{TTL: -1}, "TTL"},
		{"a", lockmgr.WaitOptions{TTL: 1500 * time.Microsecond}, "TTL"},
		{"a", lockmgr.WaitOptions{Wait: -1}, "Wait"},
		{"a", lockmgr.WaitOptions{Poll: -1}, "Poll"},
	} {
		if _, _, err := m.AcquireOrWait(t.Context(), tt.name, tt.opts); !errors.Is(err, lockmgr.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q, %+v: %v, want an error that names %s", tt.name, tt.opts, err, tt.says)
		}
	}
	if sent != 0 {
		t.Errorf("%d commands were sent", sent)
	}
	for outcome, want := range map[lockmgr.Outcome]string{
		lockmgr.TimedOut: "timed out", lockmgr.Acquired: "acquired", lockmgr.Ended: "ended", 7: "Outcome(7)",
	} {
		if got := outcome.String(); got != want {
			t.Errorf("%d is %q, want %q", int(outcome), got, want)
		}
	}
}
