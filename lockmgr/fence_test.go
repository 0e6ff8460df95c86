package lockmgr

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// When the clock steps back nobody overtakes the queue, and fences still grow.
func TestAClockThatStepsBack(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		first := mustAcquire(t, m, "a")
		future := first.Fence() + int64(time.Hour/time.Microsecond)
		client.Set(t.Context(), "Lock:a:Fence", future, time.Minute) // drawn before the step
		for i, token := range []string{"came first", "came second"} {
			if _, ahead := askAs(t, m, token); ahead != int64(i) {
				t.Errorf("%s: %d ahead", token, ahead)
			}
		}
		if order := client.ZRange(t.Context(), "Lock:a:Queue", 0, -1).Val(); !slices.Equal(order, []string{"came first", "came second"}) {
			t.Errorf("the queue is %v", order)
		}
		client.Del(t.Context(), "Lock:a:Queue")
		mustRelease(t, first)
		next := mustAcquire(t, m, "a")
		if next.Fence() <= future {
			t.Errorf("fence %d after %d", next.Fence(), future)
		}
		mustRelease(t, next)
	})
}

// Fences grow from hold to hold, even if Redis has lost everything between two.
func TestFencesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		last := int64(0)
		for i := range 40 {
			lock := mustAcquire(t, managers[i%2], "a")
			if lock.Fence() <= last {
				t.Fatalf("fence %d after %d", lock.Fence(), last)
			}
			last = lock.Fence()
			mustRelease(t, lock)
			if i%10 == 9 {
				time.Sleep(time.Hour)
				if keys := clients[0].Keys(t.Context(), "*").Val(); len(keys) > 0 {
					t.Errorf("after an idle hour %v are left", keys)
				}
			}
		}
	})
}

// Redis restarts from a snapshot that is some holds old, or a replica takes over that is some
// holds behind: no fence is drawn twice.
func TestFencesGrowAcrossARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	m := newManager(t, client, Options{})
	hold := func() int64 {
		lock := mustAcquire(t, m, "a")
		mustRelease(t, lock)
		return lock.Fence()
	}
	first := hold()
	redistest.OK(t, client.Save(t.Context()).Err())
	last := first
	for range 100 {
		last = hold()
	}
	server.Restart()
	if stored := client.Get(t.Context(), "Lock:a:Fence").Val(); parseNumber(stored) != first {
		t.Fatalf("after the restart Redis has %s, want the snapshot's %d", stored, first)
	}
	if next := hold(); next <= last {
		t.Errorf("fence %d after %d", next, last)
	}
}

// However a hold begins, its fence is larger than the last one, even if Redis has lost the
// last number or knows only an older one.
func TestFencesGrowOverLoss(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		last := int64(0)
		grows := func(how string, fence int64) {
			t.Helper()
			if fence <= last {
				t.Errorf("%s: fence %d after %d", how, fence, last)
			}
			last = fence
			if ttl := client.PTTL(t.Context(), "Lock:a:Fence").Val(); ttl <= 0 {
				t.Errorf("%s: the last fence stays for ever", how)
			}
			client.Set(t.Context(), "Lock:a:Fence", last-99, 0) // an old state
		}
		for _, lose := range []bool{false, true} {
			lock := mustAcquire(t, m, "a")
			grows("acquire", lock.Fence())
			next := make(chan *Lock, 1)
			go func() { next <- mustAcquire(t, m, "a") }()
			awaitLine(t, m, "a", 1)
			mustRelease(t, lock)
			lock = redistest.Receive(t, next, "the waiter to get the lock")
			grows("passed on", lock.Fence())
			mustRelease(t, lock)
			if lose {
				client.Del(t.Context(), "Lock:a:Fence")
			}
			lock, err := m.TryAcquire(t.Context(), "a")
			redistest.OK(t, err)
			grows("try", lock.Fence())
			mustRelease(t, lock)
			all, err := m.AcquireAll(t.Context(), "a", "b")
			redistest.OK(t, err)
			grows("all", all.Lock("a").Fence())
			redistest.OK(t, all.Release(t.Context()))
			_, lock, err = m.AcquireOrWait(t.Context(), "a", WaitOptions{})
			redistest.OK(t, err)
			grows("or wait", lock.Fence())
			mustRelease(t, lock)
		}
	})
}
