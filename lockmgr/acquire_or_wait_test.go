package lockmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

func TestAcquireOrWait(t *testing.T) {
	const poll = DefaultWaitPoll
	release := func(t *testing.T, _ *redis.Client, lock *Lock) {
		time.AfterFunc(time.Second, func() { _ = lock.Release(t.Context()) })
	}
	keep := func(_ *testing.T, _ *redis.Client, lock *Lock) { lock.KeepAlive() }
	for _, tt := range []struct {
		name     string
		opts     WaitOptions
		holder   func(t *testing.T, client *redis.Client, lock *Lock) // nil: nobody holds it
		want     Outcome
		min, max time.Duration
	}{
		{"free", WaitOptions{}, nil, Acquired, 0, 0},
		{"released", WaitOptions{}, release, Ended, time.Second, time.Second + poll},
		{"expired", WaitOptions{}, func(*testing.T, *redis.Client, *Lock) {}, Ended, DefaultTTL, DefaultTTL + poll},
		{"taken over", WaitOptions{}, func(t *testing.T, client *redis.Client, _ *Lock) {
			time.AfterFunc(time.Second, func() { client.Set(t.Context(), "Lock:a", "the next one", time.Hour) })
		}, Ended, time.Second, time.Second + poll},
		{"held on", WaitOptions{}, keep, TimedOut, DefaultWaitTimeout, DefaultWaitTimeout},
		{"held on, another wait", WaitOptions{Wait: 2 * poll}, keep, TimedOut, 2 * poll, 2 * poll},
		{"a wait shorter than the poll", WaitOptions{Wait: poll / 10}, keep, TimedOut, poll / 10, poll / 10},
		{"another poll", WaitOptions{Poll: 2 * time.Second}, release, Ended, 2 * time.Second, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				managers, clients := nodes(t, 2, Options{})
				m, client := managers[0], clients[0]
				var held *Lock
				if tt.holder != nil {
					held = mustTry(t, managers[1], "a")
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
		virtually(t, 1, Options{TTL: time.Hour}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
			m, client, want := managers[0], clients[0], cmp.Or(ttl, DefaultWaitTTL)
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
			// The next in the queue gets it with a TTL of its own.
			got := acquiring(t, m, "a")
			synctest.Wait()
			redistest.OK(t, lock.Release(t.Context()))
			next := redistest.Receive(t, got, "the waiter to get the lock")
			d := client.PTTL(t.Context(), m.Key("a")).Val()
			redistest.ErrorIf(t, d < time.Hour-time.Second, "the next holder's TTL is %v", d)
			mustRelease(t, next)
		})
	}
}

// Waiters in the queue come first, and keep their positions.
func TestAcquireOrWaitDoesNotOvertake(t *testing.T) {
	virtually(t, 1, Options{Poll: time.Second}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m := managers[0]
		mustTry(t, m, "a")
		got := acquiring(t, m, "a")
		time.Sleep(10 * time.Millisecond)
		clients[0].Del(t.Context(), m.Key("a"))
		start := time.Now()
		var holder sync.WaitGroup
		holder.Go(func() {
			lock := <-got
			time.Sleep(time.Second)
			mustRelease(t, lock)
		})
		defer holder.Wait()
		outcome, _, err := m.AcquireOrWait(t.Context(), "a", WaitOptions{})
		redistest.ErrorIf(t, outcome != Ended || err != nil, "%v, %v", outcome, err)
		took := time.Since(start)
		redistest.ErrorIf(t, took < time.Second, "the waiter held it for 1s, ended after %v", took)
	})
}

func TestAcquireOrWaitGivesUp(t *testing.T) {
	reason := errors.New("the player closed the window")
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{TTL: time.Minute})
		m := managers[0]
		fails := func(what, name string, ctx context.Context, targets ...error) {
			t.Helper()
			outcome, _, err := m.AcquireOrWait(ctx, name, WaitOptions{})
			for _, target := range targets {
				redistest.ErrorIs(t, what, err, target)
			}
			redistest.Equal(t, what, outcome, TimedOut)
		}
		holder := mustTry(t, m, "a")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reason)
		defer cancel()
		fails("cancelled", "a", ctx, reason, ErrHeld)
		lose(clients[0], tryScript)
		fails("the reply was lost", "b", t.Context(), errLostReply)
		clients[0].AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if cmd.Name() == "get" {
				return errLostReply
			}
			return nil
		}})
		fails("the reply to a look was lost", "a", t.Context(), errLostReply)
		redistest.OK(t, holder.Release(t.Context()))
		checkClean(t, clients[0])
		mustTry(t, m, "a")
		time.AfterFunc(50*time.Millisecond, m.Close)
		fails("closed while it waits", "a", t.Context(), ErrClosed)
		fails("closed", "b", t.Context(), ErrClosed)
	})
}

func TestAcquireOrWaitBadInput(t *testing.T) {
	managers, clients := nodes(t, 1, Options{})
	m, sent := managers[0], counted(clients[0], nil)
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
		_, _, err := m.AcquireOrWait(t.Context(), tt.name, tt.opts)
		redistest.ErrorSays(t, tt.name, err, ErrInvalid, tt.says)
	}
	redistest.Equal(t, "commands sent:", sent.Load(), 0)
	got := fmt.Sprint(TimedOut, Acquired, Ended, Outcome(7))
	redistest.Equal(t, "outcomes:", got, "timed out acquired ended Outcome(7)")
}
