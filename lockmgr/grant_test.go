package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// handedOver has one Manager hold a lock while another waits, and returns what the
// second got when the first gave the lock back after meanwhile.
func handedOver(t *testing.T, from, to *Manager, meanwhile func()) (lock *Lock, lastPoll time.Time) {
	t.Helper()
	first := mustAcquire(t, from, "a")
	got := make(chan *Lock, 1)
	go func() { got <- mustAcquire(t, to, "a") }()
	synctest.Wait()
	polled := time.Now()
	meanwhile()
	_ = first.Release(t.Context()) // its lock is gone if the clock went on
	return redistest.Receive(t, got, "the waiter to get the lock"), polled
}

// The server's clock steps while somebody waits: what the waiter is handed is trusted for
// a claim since it last asked, by its own clock, and no longer.
func TestServerClockStepsDuringAWait(t *testing.T) {
	for _, step := range []time.Duration{2 * time.Second, 9 * time.Second, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			server, client := redistest.Mini(t)
			from := newManager(t, client, Options{TTL: 10 * time.Second})
			to := newManager(t, redistest.MiniClient(t, server), Options{TTL: 10 * time.Second, Poll: 100 * time.Millisecond})
			lock, polled := handedOver(t, from, to, func() {
				server.SetTime(time.Now().Add(step))
				time.Sleep(time.Millisecond)
			})
			if d := lock.Deadline().Sub(polled); d > DefaultClaim {
				t.Errorf("a step of %v: the hold is trusted for %v", step, d)
			}
			mustRelease(t, lock)
		})
	}
}

// The claim is the releaser's, who keeps the lock only for so long.
func TestClaimsThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := redistest.Mini(t)
		const claim = 50 * time.Millisecond
		from := newManager(t, client, Options{Claim: claim})
		to := newManager(t, redistest.MiniClient(t, server), Options{})
		lock, polled := handedOver(t, from, to, func() { time.Sleep(time.Millisecond) })
		if d := lock.Deadline().Sub(polled); d > claim {
			t.Errorf("trusted for %v, and kept for %v", d, claim)
		}
		mustRelease(t, lock)
		lock, polled = handedOver(t, to, from, func() { time.Sleep(time.Millisecond) })
		if d := lock.Deadline().Sub(polled); d > DefaultClaim || d <= claim {
			t.Errorf("trusted for %v, and kept for %v", d, DefaultClaim)
		}
		mustRelease(t, lock)
	})
}

// A poll's reply is late, and the wake-up that came meanwhile says nothing any more.
func TestALateReplyAndAWakeUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		var late atomic.Bool
		clients[1].AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, acquireScript) && late.CompareAndSwap(true, false) {
				time.Sleep(400 * time.Millisecond)
			}
			return nil
		}})
		lock, _ := handedOver(t, managers[0], managers[1], func() {
			late.Store(true)
			time.Sleep(DefaultPoll + time.Millisecond)
		})
		if err := lock.Err(); err != nil {
			t.Errorf("the hold was over when it was returned: %v", err)
		}
		if holder := clients[0].Get(t.Context(), "Lock:a").Val(); holder != lock.Token() {
			t.Errorf("the lock holds %q", holder)
		}
		mustRelease(t, lock)
		checkClean(t, clients[0])
	})
}

// The reply that brings the lock comes when its TTL is over.
func TestAReplyLaterThanTheTTL(t *testing.T) {
	for name, acquire := range map[string]func(context.Context, *Manager) (error, error){
		"acquire": func(ctx context.Context, m *Manager) (error, error) {
			lock, err := m.Acquire(ctx, "a")
			if err != nil {
				return nil, err
			}
			return lock.Err(), lock.Release(ctx)
		},
		"try": func(ctx context.Context, m *Manager) (error, error) {
			lock, err := m.TryAcquire(ctx, "a")
			if err != nil {
				return nil, err
			}
			return lock.Err(), lock.Release(ctx)
		},
		"all": func(ctx context.Context, m *Manager) (error, error) {
			all, err := m.AcquireAll(ctx, "a", "b")
			if err != nil {
				return nil, err
			}
			return all.Err(), all.Release(ctx)
		},
		"or vanish": func(ctx context.Context, m *Manager) (error, error) {
			_, lock, err := m.AcquireOrVanish(ctx, "a", VanishOptions{TTL: DefaultTTL})
			if err != nil {
				return nil, err
			}
			return lock.Err(), lock.Release(ctx)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			managers, clients := nodes(t, 1, Options{})
			late := true
			clients[0].AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
				if (isScript(cmd, acquireScript) || isScript(cmd, allScript) || isScript(cmd, vanishScript)) && late {
					late = false
					time.Sleep(DefaultTTL)
				}
				return nil
			}})
			over, err := acquire(t.Context(), managers[0])
			if over != nil {
				t.Errorf("%s: the hold was over when it was returned: %v", name, over)
			}
			if err != nil && !errors.Is(err, ErrExpired) {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(cleanupTimeout)
			checkClean(t, clients[0])
		})
	}
}

// A wake-up that was for a place in the queue that the waiter has lost is not taken for
// one of its present place.
func TestAWakeUpOfAnEarlierPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
		m := managers[0]
		w := &waiter{slot: m.newSlot("a"), given: make(chan *grant, 1)}
		l := &line{waiters: []*waiter{w}}
		wake := wakeUp{100, DefaultClaim, w.token}
		m.woken(l, wake)
		if g := <-w.given; g != nil {
			t.Errorf("before it has asked: %+v", g)
		}
		m.queuedAt(w, 99, time.Now(), 0)
		m.woken(l, wake)
		if g := <-w.given; !m.usable(w, g) {
			t.Errorf("its turn: %+v", g)
		}
		m.queuedAt(w, 101, time.Now(), 0)
		m.woken(l, wake)
		if g := <-w.given; m.usable(w, g) {
			t.Errorf("an earlier turn: %+v", g)
		}
	})
}

// Where a claim is no longer than a few round trips, whoever is handed a lock asks before
// it goes to work, and so keeps it.
func TestSlowRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		const oneWay = 60 * time.Millisecond
		for _, c := range clients {
			slow := func(context.Context, redis.Cmder) error { time.Sleep(oneWay); return nil }
			c.AddHook(redistest.Hook{Before: slow, After: slow})
		}
		errs := make(chan error)
		for i := range 6 {
			go func() {
				errs <- managers[i%2].Do(t.Context(), "a", func(ctx context.Context) error {
					time.Sleep(400 * time.Millisecond)
					return context.Cause(ctx)
				})
			}()
		}
		for range 6 {
			if err := redistest.Receive(t, errs, "a Do"); err != nil {
				t.Errorf("with a round trip of %v and a claim of %v: %v", 2*oneWay, DefaultClaim, err)
			}
		}
	})
}

// Options that would break waiting are refused by their names, and the defaults follow
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
