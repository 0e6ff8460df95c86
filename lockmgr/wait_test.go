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
		next.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if name := cmd.Name(); name == "evalsha" || name == "eval" {
				return lost
			}
			return nil
		}})
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
			w := new(waiter)
			w.init(to, "a")
			w.ttl = time.Second
			asked := 0
			next.AddHook(redistest.Hook{
				Before: func(_ context.Context, cmd redis.Cmder) error {
					if isScript(cmd, acquireScript) {
						if asked++; asked == 2 { // the request is under way
							mustRelease(t, held)
						}
					}
					return nil
				},
				After: func(_ context.Context, cmd redis.Cmder) error {
					if isScript(cmd, acquireScript) && asked == 2 {
						time.Sleep(1500 * time.Millisecond)
					}
					return nil
				},
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
			if n := client.Exists(t.Context(), "Lock:a").Val(); n != 0 {
				t.Fatal("the key is there")
			}
			redistest.ErrorIf(t, w.isUsable(g), "a hold of %v, whose key is gone", g.lasts)
		})
	}
}

// A claim counts from when the waiter asked, and not from the answer: it may have been given right after Redis wrote that.
func TestAClaimCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		held := mustAcquire(t, managers[0], "a")
		farAway(clients[0], 100*time.Millisecond)
		w := new(waiter)
		w.init(managers[0], "a")
		w.ttl = DefaultTTL
		sent := time.Now()
		if got, err := w.ask(t.Context()); got || err != nil {
			t.Fatal(got, err)
		}
		w.wake(wakeUp{held.Fence() * 2, DefaultClaim, w.Token()})
		g, err := w.sleep(t.Context(), DefaultPoll)
		redistest.OK(t, err)
		redistest.ErrorIf(t, g == nil || !g.since.Equal(sent) || w.isUsable(g),
			"%+v, asked at %v; with less than two round trips left it is usable: %v", g, sent, w.isUsable(g))
		w.abandon()
		mustRelease(t, held)
		checkClean(t, clients[0])
	})
}

// To look who has the lock is not to ask for it: the claim counts from when the waiter was last told to wait.
func TestALookDoesNotProlongTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 2, Options{})
		asked := time.Now()
		lock, _ := handedOver(t, managers[0], managers[1], func() { time.Sleep(5 * DefaultPoll / 2) })
		d := lock.Deadline().Sub(asked)
		redistest.ErrorIf(t, d != DefaultClaim, "the hold is trusted for %v from when it was asked for", d)
		mustRelease(t, lock)
	})
}

// What Redis answered to an earlier token of a slot says nothing about the present one.
func TestAnAnswerToAnEarlierToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
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
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
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
		if g, err := s.sleep(t.Context(), DefaultPoll); g != nil || err != nil {
			t.Errorf("%+v, %v", g, err)
		}
	})
}

// The extension of a claim fails. It is tried again before the claim ends.
func TestTheExtensionOfAClaimIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		lock, _ := handedOver(t, managers[0], managers[1], func() {})
		lose(clients[1], extendScript)
		time.Sleep(2 * DefaultClaim)
		redistest.OK(t, lock.Err())
		mustRelease(t, lock)
	})
}

// The watchdog starts also after the one extension that a claim has.
func TestKeepAliveAfterAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		lock, _ := handedOver(t, managers[0], managers[1], func() {})
		time.Sleep(DefaultClaim)
		lock.KeepAlive()
		time.Sleep(10 * DefaultTTL)
		redistest.OK(t, lock.Err())
		mustRelease(t, lock)
		checkClean(t, clients[0])
	})
}

// StopKeepAlive returns when the extension that runs has ended: a later answer would report a lock that the caller has
// given back as stolen.
func TestStopKeepAliveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
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
		checkClean(t, clients[0])
	})
}

// However a hold begins, its deadline counts from before the request that began it.
func TestDeadlinesCountFromTheRequest(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, m *Manager) (deadline time.Time){
		"acquire": func(t *testing.T, m *Manager) time.Time { return mustAcquire(t, m, "a").Deadline() },
		"try": func(t *testing.T, m *Manager) time.Time {
			lock := mustTry(t, m, "a")
			return lock.Deadline()
		},
		"all": func(t *testing.T, m *Manager) time.Time {
			locks := mustAll(t, m, "a", "b")
			return locks.Deadline()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			managers, clients := nodes(t, 1, Options{})
			loadScripts(t, clients[0])
			farAway(clients[0], 100*time.Millisecond)
			start := time.Now()
			lasts := begin(t, managers[0]).Sub(start)
			redistest.ErrorIf(t, lasts != DefaultTTL, "%s: %v from the request", name, lasts)
		})
	}
	synctest.Test(t, func(t *testing.T) { // passed on within the process
		managers, clients := nodes(t, 1, Options{})
		held := mustAcquire(t, managers[0], "a")
		got := acquiring(t, managers[0], "a")
		synctest.Wait()
		afterScript(clients[0], passScript, func() error {
			time.Sleep(time.Millisecond) // before the next poll
			return nil
		})
		start := time.Now()
		mustRelease(t, held)
		lasts := redistest.Receive(t, got, "the next waiter").Deadline().Sub(start)
		redistest.ErrorIf(t, lasts != DefaultTTL, "passed on: %v from the request", lasts)
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
		if d := lock.Deadline().Sub(polled); d > DefaultClaim || d <= claim {
			t.Errorf("trusted for %v, and kept for %v", d, DefaultClaim)
		}
		mustRelease(t, lock)
	})
}

// The request, or the reply that brings the lock, is under way for longer than the TTL.
func TestAReplyLaterThanTheTTL(t *testing.T) {
	for name, acquire := range map[string]func(context.Context, *Manager) (error, error){
		"acquire": func(ctx context.Context, m *Manager) (error, error) {
			lock, err := m.Acquire(ctx, "a")
			if err != nil {
				return nil, err
			}
			return lock.Err(), lock.Release(ctx)
		},
		"try": func(ctx context.Context, m *Manager) (error, error) {
			lock, err := m.TryAcquire(ctx, "a")
			if err != nil {
				return nil, err
			}
			return lock.Err(), lock.Release(ctx)
		},
		"all": func(ctx context.Context, m *Manager) (error, error) {
			all, err := m.AcquireAll(ctx, "a", "b")
			if err != nil {
				return nil, err
			}
			return all.Err(), all.Release(ctx)
		},
		"or wait": func(ctx context.Context, m *Manager) (error, error) {
			_, lock, err := m.AcquireOrWait(ctx, "a", WaitOptions{TTL: DefaultTTL})
			if err != nil {
				return nil, err
			}
			return lock.Err(), lock.Release(ctx)
		},
	} {
		for _, executed := range []bool{false, true} { // when the delay begins
			synctest.Test(t, func(t *testing.T) {
				managers, clients := nodes(t, 1, Options{})
				late := true
				delay := func(_ context.Context, cmd redis.Cmder) error {
					if (isScript(cmd, acquireScript) || isScript(cmd, allScript) || isScript(cmd, tryScript)) && late {
						late = false
						time.Sleep(DefaultTTL)
					}
					return nil
				}
				if executed {
					clients[0].AddHook(redistest.Hook{After: delay})
				} else {
					clients[0].AddHook(redistest.Hook{Before: delay})
				}
				over, err := acquire(t.Context(), managers[0])
				redistest.ErrorIf(t, over != nil, "%s: the hold was over when it was returned: %v", name, over)
				redistest.ErrorIf(t, err != nil && !errors.Is(err, ErrExpired), "%s: %v", name, err)
				time.Sleep(cleanupTimeout)
				checkClean(t, clients[0])
			})
		}
	}
}

// If a claim lasts for no more than a few round trips, a waiter that is handed the lock asks
// before it goes to work, and so keeps the lock.
func TestSlowRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		const oneWay = 60 * time.Millisecond
		for _, c := range clients {
			slow := func(context.Context, redis.Cmder) error { time.Sleep(oneWay); return nil }
			c.AddHook(redistest.Hook{Before: slow, After: slow})
		}
		errs := make(chan error)
		for i := range 6 {
			go func() {
				errs <- managers[i%2].Do(t.Context(), "a", func(ctx context.Context, _ *Lock) error {
					time.Sleep(400 * time.Millisecond)
					return context.Cause(ctx)
				})
			}()
		}
		for range 6 {
			if err := redistest.Receive(t, errs, "a Do"); err != nil {
				t.Errorf("with a round trip of %v and a claim of %v: %v", 2*oneWay, DefaultClaim, err)
			}
		}
	})
}

// Redis does not answer. The first caller waits itself, and finds out; those of the next
// second end with their contexts at once.
func TestCallersOfASlowRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		clients[0].AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if isScript(cmd, tryScript) {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}})
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
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{Poll: time.Second})
		a, b := managers[0], managers[1]
		held := mustAcquire(t, a, "a") // b subscribes
		got := acquiring(t, b, "a")
		synctest.Wait()
		mustRelease(t, held)
		mustRelease(t, redistest.Receive(t, got, "the first hand-over"))

		held = mustAcquire(t, a, "a")
		var once sync.Once
		afterScript(clients[1], acquireScript, func() error {
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
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
		s := slotOf(managers[0], "a:earlier")
		s.wake(wakeUp{1, DefaultClaim, s.Token()})
		s.Renew()
		start := time.Now()
		g, err := s.sleep(t.Context(), DefaultPoll)
		redistest.ErrorIf(t, g != nil || err != nil || time.Since(start) != DefaultPoll, "%+v, %v", g, err)
	})
}
