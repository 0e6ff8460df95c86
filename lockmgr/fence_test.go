package lockmgr

import (
	"slices"
	"testing"
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
			_, ahead := askAs(t, m, token)
			redistest.ErrorIf(t, ahead != int64(i), "%s: %d ahead", token, ahead)
		}
		order := client.ZRange(t.Context(), "Lock:a:Queue", 0, -1).Val()
		redistest.ErrorIf(t, !slices.Equal(order, []string{"came first", "came second"}), "the queue is %v", order)
		client.Del(t.Context(), "Lock:a:Queue")
		mustRelease(t, first)
		next := mustAcquire(t, m, "a")
		redistest.ErrorIf(t, next.Fence() <= future, "fence %d after %d", next.Fence(), future)
		mustRelease(t, next)
	})
}

// However a hold begins, its fence is larger than the last one, even if Redis has lost the
// last number or knows only an older one.
func TestFencesGrowOverLoss(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		last := int64(0)
		grows := func(how string, fence int64) {
			t.Helper()
			redistest.ErrorIf(t, fence <= last, "%s: fence %d after %d", how, fence, last)
			last = fence
			ttl := client.PTTL(t.Context(), "Lock:a:Fence").Val()
			redistest.ErrorIf(t, ttl <= 0, "%s: the last fence stays for ever", how)
			client.Set(t.Context(), "Lock:a:Fence", last-99, 0) // an old state
		}
		for _, lose := range []bool{false, true} {
			lock := mustAcquire(t, m, "a")
			grows("acquire", lock.Fence())
			next := acquiring(t, m, "a")
			awaitLine(t, m, "a", 1)
			mustRelease(t, lock)
			lock = redistest.Receive(t, next, "the waiter to get the lock")
			grows("passed on", lock.Fence())
			mustRelease(t, lock)
			if lose {
				client.Del(t.Context(), "Lock:a:Fence")
			}
			lock = mustTry(t, m, "a")
			grows("try", lock.Fence())
			mustRelease(t, lock)
			all := mustAll(t, m, "a", "b")
			grows("all", all.Lock("a").Fence())
			redistest.OK(t, all.Release(t.Context()))
			_, lock, err := m.AcquireOrWait(t.Context(), "a", WaitOptions{})
			redistest.OK(t, err)
			grows("or wait", lock.Fence())
			mustRelease(t, lock)
		}
	})
}
