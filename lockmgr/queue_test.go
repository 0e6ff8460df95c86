package lockmgr

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
				lock, err := m.Acquire(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
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
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		holder := mustAcquire(t, managers[1], "a")
		const dead = 3
		for i := range dead {
			if held, ahead := askAs(t, managers[1], fmt.Sprint("dead-", i)); held || ahead != int64(i) {
				t.Fatalf("%d ahead", ahead)
			}
		}
		got := acquiring(t, managers[0], "a")
		synctest.Wait()
		start := time.Now()
		mustRelease(t, holder)
		mustRelease(t, redistest.Receive(t, got, "the waiter to get the lock"))
		if d := time.Since(start); d < dead*DefaultClaim || d > dead*(DefaultClaim+DefaultPoll) {
			t.Errorf("%d dead waiters cost %v", dead, d)
		}
		checkClean(t, clients[0])
	})
}

// The queue of processes that have died expires, even if nobody else asks for the lock.
func TestAQueueOfTheDeadGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		mustAcquire(t, managers[0], "a")
		askAs(t, managers[0], "dead")
		time.Sleep(keepQueue + time.Second)
		checkClean(t, clients[0])
	})
}

func TestNobodyPassesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 3, Options{})
		holder := mustAcquire(t, managers[0], "a")
		askAs(t, managers[1], "waiting")
		clients[0].Del(t.Context(), "Lock:a") // it expired
		redistest.ErrorIs(t, "passed the queue", redistest.Err(managers[2].TryAcquire(t.Context(), "a")), ErrHeld)
		redistest.Equal(t, "the lock was offered to", clients[0].Get(t.Context(), "Lock:a").Val(), "waiting")
		held, _ := askAs(t, managers[1], "waiting")
		redistest.ErrorIf(t, !held, "the next in line did not get it")
		slotOf(managers[1], "waiting").abandon()
		_ = holder.Release(t.Context())
		checkClean(t, clients[0])
	})
}

// Redis keeps the queue, in its order, as long as somebody waits in it.
func TestALongWaitKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 3, Options{Poll: 500 * time.Millisecond})
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
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		m := managers[0]
		holder := mustAcquire(t, m, "a")
		askAs(t, m, "next")
		give := NewScript(`lock_release(1, ARGV[3])`)
		_ = m.Run(t.Context(), give, "a", nil, "next").Err()
		holder.Released()
		redistest.Equal(t, "the lock holds", clients[0].Get(t.Context(), "Lock:a").Val(), "next")
		redistest.Equal(t, "wait:", clients[0].ZCount(t.Context(), "Lock:a:Queue", "-inf", "(1e18").Val(), 0)
	})
}
