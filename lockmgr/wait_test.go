package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// handedOver has one Manager hold a lock while another waits, calls meanwhile, and releases
// the lock. It returns the hold of the second Manager.
func handedOver(t *testing.T, from, to *Manager, meanwhile func()) (lock *Lock, lastPoll time.Time) {
	t.Helper()
	first := mustAcquire(t, from, "a")
	got := acquiring(t, to, "a")
	synctest.Wait()
	polled := time.Now()
	meanwhile()
	_ = first.Release(t.Context()) // its lock is gone if the clock went on
	return redistest.Receive(t, got, "the waiter to get the lock"), polled
}

// The server's clock steps while somebody waits: the waiter trusts its hold for a claim since
// it last asked, by its own clock, and no longer.
func TestServerClockStepsDuringAWait(t *testing.T) {
	for _, step := range []time.Duration{2 * time.Second, 9 * time.Second, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			server, client := redistest.Mini(t)
			from := newManager(t, client, Options{TTL: 10 * time.Second})
			to := newManager(t, redistest.MiniClient(t, server), Options{TTL: 10 * time.Second, Poll: 100 * time.Millisecond})
			lock, polled := handedOver(t, from, to, func() {
				server.SetTime(time.Now().Add(step))
				time.Sleep(time.Millisecond)
			})
			d := lock.Deadline().Sub(polled)
			redistest.ErrorIf(t, d > DefaultClaim, "a step of %v: the hold is trusted for %v", step, d)
			mustRelease(t, lock)
		})
	}
}

// The claim of the process that releases the lock is longer than the TTL of the next holder, whose extension
// therefore shortens the life of the key. Redis carries it out, and the reply is lost.
func TestExtensionShorterThanTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := redistest.Mini(t)
		from := newManager(t, client, Options{TTL: 20 * time.Second, Claim: 8 * time.Second})
		next := redistest.MiniClient(t, server)
		to := newManager(t, next, Options{TTL: time.Second})
		lock, _ := handedOver(t, from, to, func() {})
		if d := time.Until(lock.Deadline()); d <= time.Second {
			t.Fatalf("the claim lasts for %v", d)
		}
		done, lost := lock.Done(), errors.New("the reply is lost")
		afterScript(next, nil, func(context.Context) error { return lost })
		sent := time.Now()
		redistest.ErrorIs(t, "extend", lock.Extend(t.Context()), lost)
		d := lock.Deadline().Sub(sent)
		redistest.ErrorIf(t, d > time.Second, "the key lasts for 1s, and is trusted for %v", d)
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("Done is open after the TTL")
		}
		mustAcquire(t, from, "a") // Redis has dropped the key
		redistest.ErrorIs(t, "Err", lock.Err(), ErrUnreachable)
	})
}

// A waiter is handed the lock for a claim longer than its TTL while it asks. Redis cuts that to the TTL, and the answer is
// late. The wake-up, in time or late itself, is not taken for a hold then: the key is gone.
func TestAskShorterThanTheClaim(t *testing.T) {
	for _, overtakes := range []bool{true, false} { // the wake-up the answer
		synctest.Test(t, func(t *testing.T) {
			server, client := redistest.Mini(t)
			from := newManager(t, client, Options{TTL: 20 * time.Second, Claim: 8 * time.Second})
			next := redistest.MiniClient(t, server)
			to := newManager(t, next, Options{TTL: time.Second, Claim: time.Second})
			held := mustAcquire(t, from, "a")
			w := newWaiter(to)
			asked := 0
			beforeScript(next, acquireScript, func(context.Context) error {
				if asked++; asked == 2 { // the request is under way
					mustRelease(t, held)
				}
				return nil
			})
			afterScript(next, acquireScript, func(context.Context) error {
				if asked == 2 {
					time.Sleep(1500 * time.Millisecond)
				}
				return nil
			})
			heard := w.wakeFor(t, client)
			redistest.OK(t, redistest.Err(w.ask(t.Context())))
			asking := make(chan bool, 1)
			go func() {
				got, err := w.ask(t.Context())
				redistest.ErrorIf(t, err != nil, "%v", err)
				asking <- got
			}()
			payload := redistest.Receive(t, heard, "the wake-up")
			if overtakes {
				w.wake(payload)
			}
			redistest.ErrorIf(t, redistest.Receive(t, asking, "the answer"), "the answer is late, and a hold")
			if !overtakes {
				w.wake(payload)
			}
			g, err := w.sleep(t.Context(), DefaultPoll)
			redistest.FatalIf(t, err != nil || g == nil, "the wake-up was lost: %v", err)
			n := client.Exists(t.Context(), "Lock:a").Val()
			redistest.FatalIf(t, n != 0, "the key is there")
			redistest.ErrorIf(t, w.isUsable(g), "a hold of %v, whose key is gone", g.lasts)
		})
	}
}

// A claim counts from when the waiter asked, and not from the answer: it may have been given right after Redis wrote that.
func TestAClaimCountsFromTheRequest(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		held := mustAcquire(t, managers[0], "a")
		farAway(clients[0], 100*time.Millisecond)
		w := newWaiter(managers[0])
		sent := time.Now()
		if got, err := w.ask(t.Context()); got || err != nil {
			t.Fatal(got, err)
		}
		w.wake(wakeUp{held.Fence() * 2, DefaultClaim, w.Token()})
		g, err := w.sleep(t.Context(), DefaultPoll)
		redistest.OK(t, err)
		redistest.ErrorIf(t, g == nil || !g.since.Equal(sent) || w.isUsable(g),
			"%+v, asked at %v; with less than two round trips left it is usable: %v", g, sent, w.isUsable(g))
		w.Abandon()
		mustRelease(t, held)
	})
}

// To look who has the lock is not to ask for it: the claim counts from when the waiter was last told to wait.
func TestALookDoesNotProlongTheClaim(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		asked := time.Now()
		lock, _ := handedOver(t, managers[0], managers[1], func() { time.Sleep(5 * DefaultPoll / 2) })
		d := lock.Deadline().Sub(asked)
		redistest.ErrorIf(t, d != DefaultClaim, "the hold is trusted for %v from when it was asked for", d)
		mustRelease(t, lock)
	})
}

// What Redis answered to an earlier token of a slot says nothing about the present one.
func TestAnAnswerToAnEarlierToken(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		s := slotOf(managers[0], "a:earlier")
		s.Renew()
		asked := time.Now()
		s.queuedAt(s.Token(), 1, asked, 0)
		time.Sleep(DefaultPoll)
		s.queuedAt("a:earlier", 3, time.Now(), time.Second)
		s.wake(wakeUp{2, DefaultClaim, s.Token()})
		g, err := s.sleep(t.Context(), DefaultPoll)
		redistest.ErrorIf(t, err != nil || !g.since.Equal(asked) || !s.isUsable(g), "%+v, %v", g, err)
	})
}

// A wake-up goes to the slot whose token it names, and gives nothing if that slot has another token since: its request
// was sent twice.
func TestAWakeUpIsForOneToken(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		m := managers[0]
		other, s := slotOf(m, "a:other"), slotOf(m, "a:its")
		m.wakes.add(other, true)
		m.wakes.add(s, true)
		m.wakes.wake(m.wakes.locks["a"], "7 250 a:its")
		redistest.ErrorIf(t, len(other.inbox()) != 0 || len(s.inbox()) != 1,
			"%d for another token, %d for its own", len(other.inbox()), len(s.inbox()))
		for range 2 {
			_, err := s.tokens.MarshalBinary()
			redistest.OK(t, err)
		}
		g, err := s.sleep(t.Context(), DefaultPoll)
		redistest.ErrorIf(t, g != nil || err != nil, "%+v, %v", g, err)
	})
}

// The extension of a claim fails. It is tried again before the claim ends.
func TestTheExtensionOfAClaimIsTriedAgain(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		lock, _ := handedOver(t, managers[0], managers[1], func() {})
		lose(clients[1], extendScript)
		time.Sleep(2 * DefaultClaim)
		redistest.OK(t, lock.Err())
		mustRelease(t, lock)
	})
}

// The watchdog starts also after the one extension that a claim has.
func TestKeepAliveAfterAClaim(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		lock, _ := handedOver(t, managers[0], managers[1], func() {})
		time.Sleep(DefaultClaim)
		lock.KeepAlive()
		time.Sleep(10 * DefaultTTL)
		redistest.OK(t, lock.Err())
		mustRelease(t, lock)
	})
}

// StopKeepAlive returns when the extension that runs has ended: a later answer would report a lock that the caller has
// given back as stolen.
func TestStopKeepAliveWaits(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		swallow(clients[0], extendScript)
		lock := mustAcquire(t, managers[0], "a")
		lock.KeepAlive()
		time.Sleep(DefaultTTL / 2) // the extension hangs
		lock.StopKeepAlive()
		lock.mu.Lock()
		runs := lock.extending != nil
		lock.mu.Unlock()
		redistest.ErrorIf(t, runs, "the extension runs still")
		mustRelease(t, lock)
	})
}

// However a hold begins, its deadline counts from before the request that began it.
func TestDeadlinesCountFromTheRequest(t *testing.T) {
	for name, acquire := range ways {
		virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
			loadScripts(t, clients[0])
			farAway(clients[0], 100*time.Millisecond)
			start := time.Now()
			lock, err := acquire(t.Context(), managers[0])
			redistest.OK(t, err)
			redistest.Equal(t, name+": from the request", lock.Deadline().Sub(start), DefaultTTL)
			mustRelease(t, lock)
		})
	}
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) { // passed on in the process
		held := mustAcquire(t, managers[0], "a")
		got := acquiring(t, managers[0], "a")
		synctest.Wait()
		afterScript(clients[0], passScript, func(context.Context) error {
			time.Sleep(time.Millisecond) // before the next poll
			return nil
		})
		start := time.Now()
		mustRelease(t, held)
		lock := redistest.Receive(t, got, "the next waiter")
		redistest.Equal(t, "passed on: from the request", lock.Deadline().Sub(start), DefaultTTL)
		mustRelease(t, lock)
	})
}

// wakeFor returns a channel that brings the next wake-up for the token.
func (w *waiter) wakeFor(t *testing.T, client *redis.Client) <-chan wakeUp {
	sub := client.Subscribe(t.Context(), w.m.names.wakeChannel(w.name))
	t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(t.Context())
	redistest.OK(t, err)
	got := make(chan wakeUp, 1)
	go func() {
		message, err := sub.ReceiveMessage(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		wake, _ := parseWakeUp(message.Payload)
		got <- wake
	}()
	return got
}

// The claim of the process that releases the lock counts.
func TestClaimsThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := redistest.Mini(t)
		const claim = 50 * time.Millisecond
		from := newManager(t, client, Options{Claim: claim})
		to := newManager(t, redistest.MiniClient(t, server), Options{})
		lock, polled := handedOver(t, from, to, func() { time.Sleep(time.Millisecond) })
		d := lock.Deadline().Sub(polled)
		redistest.ErrorIf(t, d > claim, "trusted for %v, and kept for %v", d, claim)
		mustRelease(t, lock)
		lock, polled = handedOver(t, to, from, func() { time.Sleep(time.Millisecond) })
		d = lock.Deadline().Sub(polled)
		redistest.ErrorIf(t, d > DefaultClaim || d <= claim, "trusted for %v, and kept for %v", d, DefaultClaim)
		mustRelease(t, lock)
	})
}

// The request, or the reply that brings the lock, is under way for longer than the TTL.
func TestAReplyLaterThanTheTTL(t *testing.T) {
	for name, acquire := range ways {
		for executed, on := range map[bool]onScript{false: beforeScript, true: afterScript} { // when the delay begins
			virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
				late := true
				on(clients[0], nil, func(context.Context) error {
					if late {
						late = false
						time.Sleep(DefaultTTL)
					}
					return nil
				})
				lock, err := acquire(t.Context(), managers[0])
				redistest.ErrorIf(t, err != nil && !errors.Is(err, ErrExpired), "%s, %v: %v", name, executed, err)
				if lock != nil {
					redistest.OK(t, lock.Err())
					mustRelease(t, lock)
				}
				time.Sleep(cleanupTimeout)
			})
		}
	}
}

// If a claim lasts for no more than a few round trips, a waiter that is handed the lock asks
// before it goes to work, and so keeps the lock.
func TestSlowRoundTrips(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		const oneWay = 60 * time.Millisecond
		for _, c := range clients {
			farAway(c, 2*oneWay)
		}
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				err := managers[i%2].Do(t.Context(), "a", func(ctx context.Context, _ *Lock) error {
					time.Sleep(400 * time.Millisecond)
					return context.Cause(ctx)
				})
				redistest.ErrorIf(t, err != nil, "with a round trip of %v and a claim of %v: %v", 2*oneWay, DefaultClaim, err)
			})
		}
		all.Wait()
	})
}

// Redis does not answer. The first caller waits itself, and finds out; those of the next
// second end with their contexts at once.
func TestCallersOfASlowRedis(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		swallow(clients[0], tryScript)
		const after = 20 * time.Millisecond
		for _, limit := range []time.Duration{directTimeout, after} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(after, cancel)
			start, name := time.Now(), fmt.Sprint(limit)
			err := second(managers[0].TryAcquire(ctx, name))
			if took := time.Since(start); !errors.Is(err, context.Canceled) || took > limit+cleanupWait {
				t.Errorf("%v after %v, want at most %v", err, took, limit)
			}
		}
	})
}

// A wake-up that comes before the reply to the request that it is for brings the lock at once, and not after a poll.
func TestAWakeUpOvertakesTheReply(t *testing.T) {
	virtually(t, 2, Options{Poll: time.Second}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		a, b := managers[0], managers[1]
		first, _ := handedOver(t, a, b, func() {}) // b subscribes
		mustRelease(t, first)
		held := mustAcquire(t, a, "a")
		var once sync.Once
		afterScript(clients[1], acquireScript, func(context.Context) error {
			once.Do(func() {
				mustRelease(t, held)
				time.Sleep(time.Millisecond)
			})
			return nil
		})
		start := time.Now()
		mustRelease(t, mustAcquire(t, b, "a"))
		took := time.Since(start)
		redistest.ErrorIf(t, took > 10*time.Millisecond, "it got the lock after %v", took)
	})
}

// Redis comes back empty, on a machine whose clock is behind, while somebody waits.
func TestAFailoverToAClockThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := redistest.Mini(t)
		from, to := newManager(t, client, Options{}), newManager(t, redistest.MiniClient(t, server), Options{})
		mustAcquire(t, from, "a")
		got := acquiring(t, to, "a")
		synctest.Wait()
		client.FlushAll(t.Context())
		server.SetTime(time.Now().Add(-time.Hour))
		start := time.Now()
		mustRelease(t, redistest.Receive(t, got, "the waiter to get the lock"))
		took := time.Since(start)
		redistest.ErrorIf(t, took > time.Second, "it got the lock after %v", took)
	})
}

// A slot with a new token does not ask because its earlier one was given the lock.
func TestAGrantOfAnEarlierToken(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		s := slotOf(managers[0], "a:earlier")
		s.wake(wakeUp{1, DefaultClaim, s.Token()})
		s.Renew()
		start := time.Now()
		g, err := s.sleep(t.Context(), DefaultPoll)
		redistest.ErrorIf(t, g != nil || err != nil || time.Since(start) != DefaultPoll, "%+v, %v", g, err)
	})
}
