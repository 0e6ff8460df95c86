package lockmgr

import (
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
		redistest.ErrorIf(t, ok != (want != wakeUp{}) || ok && got != want, "%q: %+v, %v", payload, got, ok)
	}
}

// A waiter that is handed the lock goes to work without asking, for the claim. If the work
// takes longer, the hold gets its whole TTL.
func TestHandedOver(t *testing.T) {
	virtually(t, 2, Options{Poll: time.Second}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		asked := counted(clients[1], acquireScript)
		const claim = 2 * time.Second // twice the poll
		first := mustAcquire(t, managers[0], "a")
		got := acquiring(t, managers[1], "a")
		synctest.Wait()
		before, waited := asked.Load(), time.Millisecond
		time.Sleep(waited) // far from a poll
		mustRelease(t, first)
		second := redistest.Receive(t, got, "the waiter to get the lock")
		redistest.ErrorIf(t, asked.Load() != before, "it asked again")
		redistest.ErrorIf(t, second.Fence() <= first.Fence(), "fence %d after %d", second.Fence(), first.Fence())
		left := time.Until(second.Deadline())
		redistest.ErrorIf(t, left != claim-waited, "%v are left, want the claim since the last poll", left)
		time.Sleep(claim - waited)
		redistest.Equal(t, "are left after the claim:", time.Until(second.Deadline()), DefaultTTL-(claim-waited)/2)
		time.Sleep(DefaultTTL)
		redistest.ErrorIf(t, second.Err() == nil, "it was extended more than once")
	})
}

// A process that does not wait for a lock any more stays subscribed to its wake-ups for a
// while, and then forgets the lock.
func TestALockThatIsQuietIsForgotten(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		lock, _ := handedOver(t, managers[0], managers[1], func() {})
		mustRelease(t, lock)
		listening := func() int {
			managers[1].wakes.mu.Lock()
			defer managers[1].wakes.mu.Unlock()
			return len(managers[1].wakes.locks)
		}
		redistest.Equal(t, "it listens for … locks:", listening(), 1)
		time.Sleep(linger + time.Second)
		redistest.Equal(t, "it listens for … locks in the end:", listening(), 0)
	})
}

// A user who may not publish can still hand over locks: the waiter finds out by asking.
func TestHandOverWithoutChannels(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	redistest.OK(t, plain.Do(t.Context(), "ACL", "SETUSER", "game", "on", ">secret", "~*", "+@all", "resetchannels").Err())
	user := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "game", Password: "secret"})
	defer user.Close()
	m, other := newManager(t, user, Options{}), newManager(t, user, Options{})
	lock := mustAcquire(t, m, "a")
	got := acquiring(t, other, "a")
	awaitQueue(t, plain, "a", 1)
	mustRelease(t, lock)
	mustRelease(t, redistest.Receive(t, got, "the waiter to get the lock"))
}

// The first SUBSCRIBE is lost: wake-ups arrive once the next one succeeds.
func TestWakeUpsAfterAFailedSubscribe(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	proxy := redistest.StartProxy(t, server.Addr())
	proxy.OnRequest(redistest.Once("SUBSCRIBE", redistest.DropRequest))
	holder := mustAcquire(t, newManager(t, plain, Options{TTL: time.Minute}), "a")
	m := newManager(t, proxy.Client(), Options{TTL: time.Minute, Poll: 14 * time.Second})
	got := acquiring(t, m, "a")
	awaitQueue(t, plain, "a", 1)
	channel := m.names.wakeChannel("a")
	redistest.Until(t, "somebody has subscribed to the wake-ups", func() bool { return plain.PubSubNumSub(t.Context(), channel).Val()[channel] > 0 })
	mustRelease(t, holder)
	mustRelease(t, redistest.Receive(t, got, "a wake-up")) // in less than a poll
}

// A wake-up for a position in the queue that the waiter has lost since gives it nothing.
func TestAWakeUpOfAnEarlierPlace(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		m := managers[0]
		s := slotOf(m, "token")
		for _, tt := range []struct {
			position int64 // 0 before it has asked
			usable   bool
		}{{0, false}, {99, true}, {101, false}} {
			if tt.position > 0 {
				s.queuedAt("token", tt.position, time.Now(), 0)
			}
			s.wake(wakeUp{100, DefaultClaim, "token"})
			g := <-s.inbox()
			redistest.ErrorIf(t, s.isUsable(g) != tt.usable, "at position %d: %+v", tt.position, g)
		}
	})
}

// A wake-up is published before the subscription is active. The waiter asks again as soon as
// it is.
func TestAnInterruptedWaiterAsks(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	proxy := redistest.StartProxy(t, server.Addr())
	refused, released := make(chan struct{}, 1000), make(chan struct{})
	proxy.OnRequest(func(args []string) redistest.Action {
		if args[0] == "SUBSCRIBE" {
			select {
			case <-released:
			default:
				refused <- struct{}{}
				return redistest.DropRequest
			}
		}
		return redistest.Pass
	})
	holder := mustAcquire(t, newManager(t, plain, Options{TTL: time.Minute}), "a")
	m := newManager(t, proxy.Client(), Options{TTL: time.Minute, Poll: 14 * time.Second})
	got := acquiring(t, m, "a")
	redistest.Receive(t, refused, "a SUBSCRIBE")
	mustRelease(t, holder)
	close(released)
	mustRelease(t, redistest.Receive(t, got, "the waiter to get the lock")) // in less than a poll
}

// A release puts the next waiter of its process into the queue, behind another process. That
// waiter hears its wake-up, and goes to work without asking.
func TestAWaiterQueuedByARelease(t *testing.T) {
	virtually(t, 2, Options{Poll: time.Second}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		first := mustAcquire(t, managers[0], "a")
		acquire := func(m *Manager) <-chan *Lock {
			got := acquiring(t, m, "a")
			synctest.Wait()
			return got
		}
		here, elsewhere, next := acquire(managers[0]), acquire(managers[1]), acquire(managers[0])
		time.Sleep(time.Millisecond)
		start := time.Now()
		mustRelease(t, first)
		second := redistest.Receive(t, here, "the waiter here")
		synctest.Wait() // the next one waits for the release to pass the lock
		mustRelease(t, second)
		third := redistest.Receive(t, elsewhere, "the waiter elsewhere")
		synctest.Wait()
		asked := counted(clients[0], acquireScript)
		mustRelease(t, third)
		mustRelease(t, redistest.Receive(t, next, "the next waiter here"))
		redistest.Equal(t, "the hand-overs took", time.Since(start), 0)
		redistest.Equal(t, "requests of the last waiter:", asked.Load(), 0)
	})
}
