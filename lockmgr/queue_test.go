package lockmgr

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// Ten processes wait one after the other. They get the lock in that order, and nobody polls:
// no time passes.
func TestFirstComeFirstServedAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		managers, clients := nodes(t, n+1, Options{})
		holder := mustAcquire(t, managers[n], "a")
		var got order
		var want []string
		var wg sync.WaitGroup
		for i, m := range managers[:n] {
			who := fmt.Sprint("node ", i)
			want = append(want, who)
			wg.Go(func() {
				lock := mustAcquire(t, m, "a")
				got.note(who)
				mustRelease(t, lock)
			})
			synctest.Wait() // it waits in Redis
		}
		time.Sleep(100*time.Millisecond + time.Millisecond) // between two polls
		start := time.Now()
		mustRelease(t, holder)
		wg.Wait()
		redistest.ErrorIf(t, !slices.Equal(got.who, want), "the order was %v", got.who)
		redistest.Equal(t, "the handoffs took … : somebody had to poll:", time.Since(start), 0)
		checkClean(t, clients[0])
	})
}

// Three processes died while they waited. Each costs one claim.
func TestADeadWaiterCostsOneClaim(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		holder := mustAcquire(t, managers[1], "a")
		const dead = 3
		for i := range dead {
			held, ahead := askAs(t, managers[1], fmt.Sprint("dead-", i))
			redistest.FatalIf(t, held || ahead != int64(i), "%d ahead", ahead)
		}
		got := acquiring(t, managers[0], "a")
		synctest.Wait()
		start := time.Now()
		mustRelease(t, holder)
		mustRelease(t, redistest.Receive(t, got, "the waiter to get the lock"))
		if d := time.Since(start); d < dead*DefaultClaim || d > dead*(DefaultClaim+DefaultPoll) {
			t.Errorf("%d dead waiters cost %v", dead, d)
		}
	})
}

// The queue of processes that have died expires, even if nobody else asks for the lock.
func TestAQueueOfTheDeadGoes(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		mustAcquire(t, managers[0], "a")
		askAs(t, managers[0], "dead")
		time.Sleep(keepQueue + time.Second)
	})
}

func TestNobodyPassesTheQueue(t *testing.T) {
	virtually(t, 3, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		holder := mustAcquire(t, managers[0], "a")
		askAs(t, managers[1], "waiting")
		clients[0].Del(t.Context(), "Lock:a") // it expired
		redistest.ErrorIs(t, "passed the queue", redistest.Err(managers[2].TryAcquire(t.Context(), "a")), ErrHeld)
		redistest.Equal(t, "the lock was offered to", clients[0].Get(t.Context(), "Lock:a").Val(), "waiting")
		held, _ := askAs(t, managers[1], "waiting")
		redistest.ErrorIf(t, !held, "the next in line did not get it")
		slotOf(managers[1], "waiting").Abandon()
		_ = holder.Release(t.Context())
	})
}

// Redis keeps the queue, in its order, as long as somebody waits in it.
func TestALongWaitKeepsItsPlace(t *testing.T) {
	virtually(t, 3, Options{Poll: 500 * time.Millisecond}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		holder := mustAcquire(t, managers[2], "a")
		holder.KeepAlive()
		var got order
		var wg sync.WaitGroup
		for i, m := range managers[:2] {
			wg.Go(func() {
				lock := mustAcquire(t, m, "a")
				got.note(fmt.Sprint(i))
				mustRelease(t, lock)
			})
			synctest.Wait()
		}
		before := clients[0].ZRangeWithScores(t.Context(), "Lock:a:Queue", 0, -1).Val()
		time.Sleep(10 * keepQueue)
		after := clients[0].ZRangeWithScores(t.Context(), "Lock:a:Queue", 0, -1).Val()
		redistest.ErrorIf(t, !slices.Equal(before, after), "the queue was %v and is %v", before, after)
		mustRelease(t, holder)
		wg.Wait()
		redistest.ErrorIf(t, !slices.Equal(got.who, []string{"0", "1"}), "the order was %v", got.who)
	})
}

// A waiter that is given the lock does not wait behind itself.
func TestGiveToTheHeadOfTheQueue(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m := managers[0]
		holder := mustAcquire(t, m, "a")
		askAs(t, m, "next")
		give := NewScript(`lock_release(1, ARGV[3])`)
		_ = m.Run(t.Context(), give, "a", nil, "next").Err()
		holder.Released()
		redistest.Equal(t, "the lock holds", clients[0].Get(t.Context(), "Lock:a").Val(), "next")
		redistest.Equal(t, "wait:", queued(t, clients[0]), 0)
		slotOf(m, "next").Abandon()
	})
}

// A waiter that is handed the lock, and releases it by a script of its own, offers it to the one behind it.
func TestWhoIsHandedTheLockSeesWhoWaits(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m := managers[0]
		holder := mustAcquire(t, m, "a")
		for _, token := range []string{"next", "behind"} {
			askAs(t, m, token)
		}
		redistest.OK(t, m.Run(t.Context(), passScript, "a", nil, holder.Token(), "next", 60000).Err())
		holder.Released()
		redistest.OK(t, m.Run(t.Context(), releaseScript, "a", nil, "next").Err())
		redistest.Equal(t, "the lock holds", clients[0].Get(t.Context(), "Lock:a").Val(), "behind")
		slotOf(m, "next").Abandon()
		slotOf(m, "behind").Abandon()
	})
}

// Processes have the lock by turns, and a round of them takes longer than a poll. A release puts the next waiter of its
// process into the queue, so that waiter does not ask.
func TestWhoIsQueuedDoesNotAsk(t *testing.T) {
	const processes, each, hold = 4, 3, 2300 * time.Microsecond
	virtually(t, processes, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		loadScripts(t, clients[0])
		asked := make([]*atomic.Int32, processes)
		var wg sync.WaitGroup
		for i, m := range managers {
			asked[i] = counted(clients[i], acquireScript)
			for range each {
				wg.Go(func() {
					lock := mustAcquire(t, m, "a")
					time.Sleep(hold)
					mustRelease(t, lock)
				})
			}
		}
		wg.Wait()
		for i := range managers {
			n := asked[i].Load()
			redistest.ErrorIf(t, n >= each, "a process asked %d times for %d holds", n, each)
		}
	})
}

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
		virtually(t, 2, Options{TTL: 2 * long}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
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
