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

// Somebody waits for long. It asks Redis seldom if it is going to be woken, and often if it is not: the holder is another
// program, or wake-ups do not come. Whatever ends the hold, it has the lock within a poll.
func TestPolls(t *testing.T) {
	const long, poll = 10 * time.Second, DefaultPoll
	del := func(t *testing.T, _ *Lock, client *redis.Client) { client.Del(t.Context(), "Lock:a") }
	release := func(t *testing.T, lock *Lock, _ *redis.Client) { mustRelease(t, lock) }
	expire := func(t *testing.T, _ *Lock, client *redis.Client) {
		time.Sleep(client.PTTL(t.Context(), "Lock:a").Val())
	}
	for name, tt := range map[string]struct {
		holder string // another program's token; empty for lockmgr
		deaf   bool
		often  bool
		end    func(*testing.T, *Lock, *redis.Client)
		within time.Duration
	}{
		"lockmgr releases":         {"", false, false, release, 0},
		"lockmgr dies":             {"", false, false, expire, poll},
		"another program releases": {"a:5c63ba6b-4bb9-4e19-9c3a-2f5b0d1c3f0a", false, true, del, poll},
		"no wake-ups come":         {"", true, true, release, poll},
	} {
		synctest.Test(t, func(t *testing.T) {
			managers, clients := nodes(t, 2, Options{TTL: 2 * long})
			if tt.deaf {
				managers[1].wakes.hub.Close()
			}
			var held *Lock
			if tt.holder == "" {
				held = mustAcquire(t, managers[0], "a")
			} else {
				redistest.OK(t, clients[0].Set(t.Context(), "Lock:a", tt.holder, 2*long).Err())
			}
			var requests atomic.Int64
			clients[1].AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error { requests.Add(1); return nil }})
			got := make(chan *Lock, 1)
			time.Sleep(DefaultClaim / 3) // its polls do not come when the hold ends
			go func() { got <- mustAcquire(t, managers[1], "a") }()
			time.Sleep(long + time.Millisecond)
			most, n := int(long/poll/8), int(requests.Load())
			redistest.ErrorIf(t, n > most != tt.often, "%s: %d requests in %v", name, n, long)
			tt.end(t, held, clients[0])
			ended := time.Now()
			lock := redistest.Receive(t, got, "the waiter to get the lock")
			took := time.Since(ended)
			redistest.ErrorIf(t, took > tt.within, "%s: it has the lock %v later", name, took)
			mustRelease(t, lock)
		})
	}
}
