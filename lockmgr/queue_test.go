package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// nodes are managers with clients of their own, on one Redis in virtual time.
func nodes(t *testing.T, n int, opts Options) ([]*Manager, []*redis.Client) {
	t.Helper()
	server, _ := redistest.Mini(t)
	var managers []*Manager
	var clients []*redis.Client
	for range n {
		c := redistest.MiniClient(t, server)
		managers, clients = append(managers, newManager(t, c, opts)), append(clients, c)
	}
	return managers, clients
}

func mustAcquire(t testing.TB, m *Manager, name string) *Lock {
	t.Helper()
	lock, err := m.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func mustRelease(t testing.TB, lock *Lock) {
	t.Helper()
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// awaitLine waits until n callers of m wait for a lock.
func awaitLine(t testing.TB, m *Manager, name string, n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		m.mu.Lock()
		l := m.lines[name]
		waiting := 0
		if l != nil {
			waiting = len(l.waiters)
		}
		m.mu.Unlock()
		if waiting == n {
			return
		}
	}
	t.Fatalf("never %d waited for %s", n, name)
}

// order notes who gets a lock after whom.
type order struct {
	mu  sync.Mutex
	who []string
}

func (o *order) note(who string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.who = append(o.who, who)
}

// Ten processes wait one after the other. They get the lock in that order, and
// without anybody polling: not a moment passes.
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
		if !slices.Equal(got.who, want) {
			t.Errorf("the order was %v", got.who)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the handoffs took %v: somebody had to poll", d)
		}
		checkClean(t, clients[0])
	})
}

// In one process, waiters stand in line, and one of them asks for all.
func TestOnePollerPerProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		var asked atomic.Int32
		clients[0].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if strings.HasPrefix(cmd.Name(), "eval") {
				asked.Add(1)
			}
			return nil
		}})
		holder := mustAcquire(t, managers[1], "a")
		var got order
		var want []string
		var wg sync.WaitGroup
		for i := range 20 {
			who := fmt.Sprint(i)
			want = append(want, who)
			wg.Go(func() {
				lock, err := managers[0].Acquire(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				got.note(who)
				mustRelease(t, lock)
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if n, limit := asked.Load(), int32(time.Second/DefaultPoll)+5; n > limit {
			t.Errorf("20 waiters asked %d times in a second, one would ask %d times", n, limit)
		}
		if n := clients[0].ZCard(t.Context(), "Lock:a:Queue").Val(); n != 1 {
			t.Errorf("%d tokens wait in Redis for one process", n)
		}
		asked.Store(0)
		mustRelease(t, holder)
		wg.Wait()
		if !slices.Equal(got.who, want) {
			t.Errorf("the order was %v", got.who)
		}
		if n := asked.Load(); n > 20+5 {
			t.Errorf("20 holds took %d scripts", n)
		}
	})
}

// A waiter of the holder's own process does not pass one that came before it
// elsewhere.
func TestAnotherProcessCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		holder := mustAcquire(t, managers[0], "a")
		var got order
		var wg sync.WaitGroup
		for i, m := range []*Manager{managers[1], managers[0]} {
			wg.Go(func() {
				lock := mustAcquire(t, m, "a")
				got.note([]string{"elsewhere", "here"}[i])
				mustRelease(t, lock)
			})
			synctest.Wait()
		}
		mustRelease(t, holder)
		wg.Wait()
		if !slices.Equal(got.who, []string{"elsewhere", "here"}) {
			t.Errorf("the order was %v", got.who)
		}
		checkClean(t, clients[0])
	})
}

// Nobody hears the wake-up: it costs one poll.
func TestALostWakeUpCostsOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 2, Options{})
		managers[0].hub.Close()
		holder := mustAcquire(t, managers[1], "a")
		got := make(chan *Lock)
		go func() { got <- mustAcquire(t, managers[0], "a") }()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		start := time.Now()
		mustRelease(t, holder)
		mustRelease(t, redistest.Receive(t, got, "the waiter to get the lock"))
		if d := time.Since(start); d > DefaultPoll {
			t.Errorf("took %v", d)
		}
	})
}

// Three processes died while they waited. Each costs one claim.
func TestADeadWaiterCostsOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		holder := mustAcquire(t, managers[1], "a")
		const dead = 3
		for i := range dead {
			if a := askAs(t, managers[1], fmt.Sprint("dead-", i), keepQueue); a.grant != nil || a.ahead != i {
				t.Fatalf("%d ahead", a.ahead)
			}
		}
		got := make(chan *Lock)
		go func() { got <- mustAcquire(t, managers[0], "a") }()
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

// Processes that have asked once and died leave no queue behind, also if nobody comes
// who would notice.
func TestAQueueOfTheDeadGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		mustAcquire(t, managers[0], "a")
		askAs(t, managers[0], "dead", keepQueue)
		time.Sleep(keepQueue + time.Second)
		checkClean(t, clients[0])
	})
}

func TestNobodyPassesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 3, Options{})
		holder := mustAcquire(t, managers[0], "a")
		askAs(t, managers[1], "waiting", keepQueue)
		clients[0].Del(t.Context(), "Lock:a") // it expired
		if _, err := managers[2].TryAcquire(t.Context(), "a"); !errors.Is(err, ErrHeld) {
			t.Errorf("passed the queue: %v", err)
		}
		if got := clients[0].Get(t.Context(), "Lock:a").Val(); got != "waiting" {
			t.Errorf("the lock was offered to %q", got)
		}
		if a := askAs(t, managers[1], "waiting", keepQueue); a.grant == nil {
			t.Error("whose turn it was did not get it")
		}
		waiting := managers[1].newSlot("a")
		waiting.token = "waiting"
		waiting.leave()
		_ = holder.Release(t.Context())
		checkClean(t, clients[0])
	})
}

// Who gives up leaves no entry, and the next one in line goes on.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		holder := mustAcquire(t, managers[1], "a")
		reason := errors.New("closed the window")
		errs := make(chan error, 3)
		var cancels []context.CancelCauseFunc
		for range 3 {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancels = append(cancels, cancel)
			go func() { errs <- second(managers[0].Acquire(ctx, "a")) }()
			synctest.Wait()
		}
		for _, i := range []int{1, 0, 2} { // in the middle, at the head, the last
			cancels[i](reason)
			if err := redistest.Receive(t, errs, "an Acquire to end"); !errors.Is(err, reason) || !errors.Is(err, ErrHeld) {
				t.Errorf("waiter %d: %v", i, err)
			}
			synctest.Wait()
			want := int64(1)
			if i == 2 {
				want = 0
			}
			if n := clients[0].ZCard(t.Context(), "Lock:a:Queue").Val(); n != want {
				t.Errorf("after waiter %d gave up %d tokens wait, want %d", i, n, want)
			}
		}
		mustRelease(t, holder)
		checkClean(t, clients[0])
	})
}

func second(_ *Lock, err error) error { return err }

func isScript(cmd redis.Cmder, s *redis.Script) bool {
	switch cmd.Name() {
	case "evalsha":
		return cmd.Args()[1] == s.Hash()
	case "eval":
		return redis.NewScript(cmd.Args()[1].(string)).Hash() == s.Hash()
	}
	return false
}

func TestTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{MaxWaiters: 2})
		m := managers[0]
		holder := mustAcquire(t, m, "a")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { mustRelease(t, mustAcquire(t, m, "a")) })
			synctest.Wait()
		}
		if _, err := m.Acquire(t.Context(), "a"); !errors.Is(err, ErrBusy) {
			t.Errorf("a third waiter: %v", err)
		}
		mustRelease(t, holder)
		wg.Wait()
	})
}

// Every hold takes 100 ms and ten are ahead: who has only 200 ms is told at once.
func TestADeadlineThatCannotBeMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
		m := managers[0]
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				lock := mustAcquire(t, m, "a")
				time.Sleep(100 * time.Millisecond)
				mustRelease(t, lock)
			})
		}
		time.Sleep(1950 * time.Millisecond)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := m.Acquire(ctx, "a"); !errors.Is(err, ErrBusy) || time.Since(start) > 0 {
			t.Errorf("hopeless: %v after %v", err, time.Since(start))
		}
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		lock, err := m.Acquire(ctx, "a")
		if err != nil {
			t.Fatalf("in time: %v", err)
		}
		mustRelease(t, lock)
		wg.Wait()
	})
}

// The queue lasts as long as somebody waits in it, and order with it.
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
		if after := clients[0].ZRangeWithScores(t.Context(), "Lock:a:Queue", 0, -1).Val(); !slices.Equal(before, after) {
			t.Errorf("the queue was %v and is %v", before, after)
		}
		mustRelease(t, holder)
		wg.Wait()
		if !slices.Equal(got.who, []string{"0", "1"}) {
			t.Errorf("the order was %v", got.who)
		}
	})
}

func TestCloseEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		holder := mustAcquire(t, managers[1], "a")
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- second(managers[0].Acquire(t.Context(), "a")) }()
		}
		synctest.Wait()
		managers[0].Close()
		for range 2 {
			if err := redistest.Receive(t, errs, "an Acquire to end"); !errors.Is(err, ErrClosed) {
				t.Errorf("waiter: %v", err)
			}
		}
		if _, err := managers[0].Acquire(t.Context(), "a"); !errors.Is(err, ErrClosed) {
			t.Errorf("acquire after close: %v", err)
		}
		mustRelease(t, holder)
		checkClean(t, clients[1])
	})
}
