package lockmgr

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// Nobody can pass by a clock that steps back, and fences do not fall with it.
func TestAClockThatStepsBack(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		first := mustAcquire(t, m, "a")
		future := first.Fence() + int64(time.Hour/time.Microsecond)
		client.Set(t.Context(), "Lock:a:Fence", future, time.Minute) // drawn before the step
		for i, token := range []string{"came first", "came second"} {
			if a := askAs(t, m, token, keepQueue); a.ahead != i {
				t.Errorf("%s: %d ahead", token, a.ahead)
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

// Fences grow from hold to hold, also when nothing is left in Redis between two.
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
