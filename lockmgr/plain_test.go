package lockmgr

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// Once nobody was met at a lock it is taken by plain commands, until somebody is.
func TestAQuietLockIsTakenPlainly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		mustRelease(t, mustAcquire(t, managers[0], "a"))
		var mu sync.Mutex
		var sent []string
		clients[0].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			mu.Lock()
			defer mu.Unlock()
			if cmd.Name() != "hello" && cmd.Name() != "client" { // a connection that is opened
				sent = append(sent, cmd.Name())
			}
			return nil
		}})
		mustRelease(t, mustAcquire(t, managers[0], "a"))
		mu.Lock()
		if want := []string{"set", "incr", "exists", "evalsha"}; !slices.Equal(sent[:4], want) {
			t.Errorf("sent %v", sent)
		}
		mu.Unlock()
		other := mustAcquire(t, managers[1], "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := managers[0].Acquire(ctx, "a"); err == nil {
			t.Fatal("it is held")
		}
		mustRelease(t, other)
		mu.Lock()
		sent = nil
		mu.Unlock()
		mustRelease(t, mustAcquire(t, managers[0], "a"))
		mu.Lock()
		if sent[0] != "evalsha" {
			t.Errorf("after somebody was met: %v", sent)
		}
		mu.Unlock()
		checkClean(t, clients[0])
	})
}

// A lock that is free, because its holder has died, while somebody waits goes to who
// has waited.
func TestTheQuietWayPassesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{Poll: time.Second})
		mustRelease(t, mustAcquire(t, managers[0], "a"))
		clients[0].Set(t.Context(), "Lock:a", "dead", 2500*time.Millisecond)
		var got order
		var wg sync.WaitGroup
		take := func(i int) {
			lock := mustAcquire(t, managers[i], "a")
			got.note(fmt.Sprint(i))
			time.Sleep(10 * time.Millisecond)
			mustRelease(t, lock)
		}
		wg.Go(func() { take(1) })
		time.Sleep(2600 * time.Millisecond) // the next poll is at 3 s
		wg.Go(func() { take(0) })
		wg.Wait()
		if want := []string{"1", "0"}; !slices.Equal(got.who, want) {
			t.Errorf("it went to %v", got.who)
		}
		checkClean(t, clients[0])
	})
}

// Who has waited may give up in that moment.
func TestTheQuietWayBackIn(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		mustRelease(t, mustAcquire(t, m, "a"))
		client.ZAdd(t.Context(), "Lock:a:Queue", redis.Z{Score: 1, Member: "waiting"})
		client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, releaseScript) {
				client.ZRem(context.Background(), "Lock:a:Queue", "waiting")
			}
			return nil
		}})
		lock := mustAcquire(t, m, "a")
		if got := client.Get(t.Context(), "Lock:a").Val(); got != lock.Token() || lock.Err() != nil {
			t.Errorf("the lock holds %q, and %v", got, lock.Err())
		}
		mustRelease(t, lock)
		checkClean(t, client)
	})
}

// Replies that come when the TTL is over say nothing: the fence may have been counted
// after another's hold, or before.
func TestAQuietAcquireWithLateReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		mustRelease(t, mustAcquire(t, managers[0], "a"))
		var between int64
		clients[0].AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if between == 0 && cmd.Name() == "exists" {
				time.Sleep(DefaultTTL)
				lock := mustAcquire(t, managers[1], "a")
				between = lock.Fence()
				mustRelease(t, lock)
			}
			return nil
		}})
		lock := mustAcquire(t, managers[0], "a")
		if lock.Err() != nil || lock.Fence() <= between {
			t.Errorf("fence %d after %d, and %v", lock.Fence(), between, lock.Err())
		}
		mustRelease(t, lock)
	})
}

// The last fence of a quiet lock may be forgotten at any time.
func TestAQuietLockWithoutAFence(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		first := mustAcquire(t, m, "a")
		mustRelease(t, first)
		client.FlushAll(t.Context())
		lock := mustAcquire(t, m, "a")
		if lock.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", lock.Fence(), first.Fence())
		}
		mustRelease(t, lock)
		checkClean(t, client) // it expires
	})
}

func TestQuietLocksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
		m := managers[0]
		for i := range 2*maxQuiet + 1 {
			m.met(fmt.Sprint(i), false)
			if len(m.quiet) > maxQuiet {
				t.Fatalf("%d names are remembered", len(m.quiet))
			}
		}
		m.met("0", true)
		m.met("a", false)
		if !m.quietLocked("a") || m.quietLocked("0") {
			t.Error("the last ones were forgotten")
		}
	})
}
