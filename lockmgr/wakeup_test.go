package lockmgr

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

func TestParseWakeUp(t *testing.T) {
	for payload, want := range map[string]wakeUp{
		"1700000000000001 250 a b:c": {1700000000000001, 250 * time.Millisecond, "a b:c"},
		"7 12":                       {},
		"x 12 a":                     {},
		"7 x a":                      {},
		"7 0 a":                      {},
		"7 1700000000000001 a":       {}, // no claim lasts so long
		"":                           {},
	} {
		got, ok := parseWakeUp(payload)
		if ok != (want != wakeUp{}) || ok && got != want {
			t.Errorf("%q: %+v, %v", payload, got, ok)
		}
	}
}

// Whoever is handed the lock goes to work without asking, for the claim; if the
// work takes longer, the hold gets its whole TTL.
func TestHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{Poll: time.Second})
		var asked atomic.Int32
		clients[1].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, acquireScript) {
				asked.Add(1)
			}
			return nil
		}})
		const claim = 2 * time.Second // twice the poll
		first := mustAcquire(t, managers[0], "a")
		got := make(chan *Lock)
		go func() {
			lock, err := managers[1].Acquire(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		synctest.Wait()
		before, waited := asked.Load(), time.Millisecond
		time.Sleep(waited) // far from a poll
		mustRelease(t, first)
		second := redistest.Receive(t, got, "the waiter to get the lock")
		if asked.Load() != before {
			t.Error("it asked again")
		}
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
		if left := time.Until(second.Deadline()); left != claim-waited {
			t.Errorf("%v are left, want the claim since the last poll", left)
		}
		time.Sleep(claim - waited)
		if left := time.Until(second.Deadline()); left != DefaultTTL-(claim-waited)/2 {
			t.Errorf("%v are left after the claim", left)
		}
		time.Sleep(DefaultTTL)
		if second.Err() == nil {
			t.Error("it was extended more than once")
		}
	})
}

// A process that waits for a lock no more stays subscribed to its wake-ups for a while,
// and then knows nothing of it.
func TestALockThatIsQuietIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 2, Options{})
		held := mustAcquire(t, managers[0], "a")
		got := make(chan *Lock, 1)
		go func() { got <- mustAcquire(t, managers[1], "a") }()
		synctest.Wait()
		mustRelease(t, held)
		mustRelease(t, redistest.Receive(t, got, "the waiter to get the lock"))
		known := func() int {
			managers[1].mu.Lock()
			defer managers[1].mu.Unlock()
			return len(managers[1].lines)
		}
		if n := known(); n != 1 {
			t.Errorf("it knows %d locks at once", n)
		}
		time.Sleep(linger + time.Second)
		if n := known(); n != 0 {
			t.Errorf("it knows %d locks in the end", n)
		}
	})
}
