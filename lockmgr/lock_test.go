package lockmgr

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

func TestDoneWhenTheDeadlinePasses(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		lock := mustAcquire(t, managers[0], "a")
		start := time.Now()
		time.AfterFunc(2*time.Second, func() { _ = lock.Extend(t.Context()) })
		redistest.OK(t, lock.Err())
		redistest.Receive(t, lock.Done(), "the hold to end")
		redistest.Equal(t, "over after", time.Since(start), 2*time.Second+DefaultTTL)
		redistest.ErrorIs(t, "over because", lock.Err(), ErrExpired)
		redistest.ErrorIs(t, "over because", lock.Err(), ErrLost)
		redistest.ErrorIs(t, "release", lock.Release(t.Context()), ErrExpired)
		lock = mustAcquire(t, managers[0], "b")
		time.Sleep(DefaultTTL)
		redistest.Receive(t, lock.Done(), "the end of a hold that is over")
	})
}

func TestDoneAfterRelease(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		lock := mustAcquire(t, managers[0], "a")
		done := lock.Done()
		mustRelease(t, lock)
		redistest.Receive(t, done, "the hold to end")
		redistest.Equal(t, "after the release:", lock.Err(), ErrReleased)
		redistest.Receive(t, lock.Done(), "the hold to end")
	})
}

// The watchdog keeps a hold for an hour, notices when somebody else has the lock or Redis is
// away, and ends with the release.
func TestWatchdog(t *testing.T) {
	type watched struct {
		*Lock
		client   *redis.Client
		extended *atomic.Int32
		away     atomic.Bool // Redis
	}
	ends := func(t *testing.T, w *watched, because error, after time.Duration) {
		t.Helper()
		start := time.Now()
		redistest.Receive(t, w.Done(), "the hold to end")
		redistest.ErrorIs(t, "it ended", w.Err(), because)
		redistest.Equal(t, "noticed after", time.Since(start), after)
	}
	for name, test := range map[string]func(t *testing.T, w *watched){
		"keeps": func(t *testing.T, w *watched) {
			time.Sleep(time.Hour + time.Millisecond) // between two extensions
			redistest.OK(t, w.Err())
			redistest.Equal(t, "the lock holds", w.client.Get(t.Context(), "Lock:a").Val(), w.Token())
			n := w.extended.Load()
			redistest.ErrorIf(t, n < 3500 || n > 3700, "%d extensions in an hour", n)
			mustRelease(t, w.Lock)
			time.Sleep(time.Hour)
			redistest.Equal(t, "extensions after the release:", w.extended.Load(), n)
		},
		"stolen": func(t *testing.T, w *watched) {
			w.client.Set(t.Context(), "Lock:a", "somebody", time.Hour)
			ends(t, w, ErrStolen, DefaultTTL/3)
			w.client.Del(t.Context(), "Lock:a")
		},
		"unreachable": func(t *testing.T, w *watched) {
			w.away.Store(true)
			ends(t, w, ErrUnreachable, DefaultTTL)
			w.away.Store(false)
		},
		"back in time": func(t *testing.T, w *watched) {
			w.away.Store(true)
			time.Sleep(2 * time.Second)
			w.away.Store(false)
			time.Sleep(time.Minute)
			mustRelease(t, w.Lock)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
				w := &watched{client: clients[0], extended: counted(clients[0], extendScript)}
				beforeScript(clients[0], nil, func(context.Context) error {
					if w.away.Load() {
						return errors.New("no route to host")
					}
					return nil
				})
				w.Lock = mustAcquire(t, managers[0], "a")
				w.KeepAlive()
				w.KeepAlive() // once is enough
				test(t, w)
			})
		})
	}
}

// After an extension the deadline lies a TTL after the request, however long the reply took.
func TestTheDeadlineCountsFromTheExtensionsRequest(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		lock := mustAcquire(t, managers[0], "a")
		afterScript(clients[0], extendScript, func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		})
		time.Sleep(time.Second)
		sent := time.Now()
		redistest.OK(t, lock.Extend(t.Context()))
		got, want := lock.Deadline(), sent.Add(DefaultTTL)
		redistest.ErrorIf(t, !got.Equal(want), "the deadline lies %v after the request", got.Sub(sent))
		mustRelease(t, lock)
	})
}

// Redis answers an extension or a release after the deadline, when the key has expired. Nobody
// has stolen the lock: an extension finds that Redis did not answer in time, and a release that
// the hold was over before that.
func TestAnAnswerAfterTheDeadlineIsNoTheft(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		for _, script := range []*redis.Script{extendScript, releaseScript} {
			beforeScript(clients[0], script, func(context.Context) error {
				time.Sleep(200 * time.Millisecond)
				return nil
			})
		}
		released := mustAcquire(t, managers[0], "a")
		time.Sleep(DefaultTTL - 100*time.Millisecond)
		redistest.OK(t, released.Release(t.Context()))
		extended := mustAcquire(t, managers[0], "b")
		time.Sleep(DefaultTTL - 100*time.Millisecond)
		redistest.ErrorIs(t, "extend", extended.Extend(t.Context()), ErrUnreachable)
		redistest.ErrorIs(t, "the hold ended because of", extended.Err(), ErrUnreachable)
	})
}

func TestDo(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		m, client := managers[0], clients[0]
		wrong := errors.New("wrong")
		err := m.Do(t.Context(), "a", func(ctx context.Context, _ *Lock) error {
			time.Sleep(time.Minute) // far beyond the TTL
			redistest.ErrorIf(t, ctx.Err() != nil || client.Get(ctx, "Lock:a").Val() == "", "the hold did not last")
			return wrong
		})
		redistest.ErrorIf(t, err != wrong, "fn's error became %v", err)
		err = m.Do(t.Context(), "a", func(ctx context.Context, _ *Lock) error {
			client.FlushAll(ctx)
			<-ctx.Done()
			cause := context.Cause(ctx)
			redistest.ErrorIf(t, !errors.Is(cause, ErrStolen), "the cause is %v", cause)
			return nil
		})
		redistest.ErrorIf(t, !errors.Is(err, ErrLost), "a lost hold: %v", err)
		func() {
			defer func() { _ = recover() }()
			_ = m.Do(t.Context(), "a", func(context.Context, *Lock) error { panic("fn") })
		}()
		client.Set(t.Context(), "Lock:b", "somebody", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = m.Do(ctx, "b", func(context.Context, *Lock) error { t.Error("fn ran"); return nil })
		redistest.ErrorIf(t, !errors.Is(err, ErrHeld), "a held lock: %v", err)
		client.Del(t.Context(), "Lock:b")
		checkClean(t, client)
	})
}

// Redis is emptied during a Do, and another caller acquires the lock: Do returns an ErrLost. It
// does not if only the reply to its release was lost.
func TestDoTellsALostLock(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, client *redis.Client, other *Manager){
		"emptied": func(t *testing.T, client *redis.Client, _ *Manager) { client.FlushAll(t.Context()) },
		"emptied, and taken": func(t *testing.T, client *redis.Client, other *Manager) {
			client.FlushAll(t.Context())
			mustAcquire(t, other, "a")
		},
		"emptied, and taken for a moment": func(t *testing.T, client *redis.Client, other *Manager) {
			client.FlushAll(t.Context())
			mustRelease(t, mustAcquire(t, other, "a"))
		},
		"scripts lost, too": func(t *testing.T, client *redis.Client, _ *Manager) {
			client.FlushAll(t.Context())
			client.ScriptFlush(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client *redis.Client) {
				m, other := newManager(t, client, Options{TTL: time.Minute}), newManager(t, client, Options{TTL: time.Minute})
				err := m.Do(t.Context(), "a", func(context.Context, *Lock) error {
					meanwhile(t, client, other)
					return nil
				})
				redistest.ErrorIf(t, !errors.Is(err, ErrStolen), "Do returned %v", err)
			})
		})
	}
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		lock := mustAcquire(t, m, "a")
		lose(client, releaseScript)
		_ = lock.Release(t.Context())
		redistest.OK(t, lock.Release(t.Context()))
	})
}

// The context of fn ended with an ErrLost. So Do returns one, even if Redis still had the lock at the release, because
// only the replies to extensions were lost, or does not answer the release either.
func TestDoTellsAHoldThatWasOverHere(t *testing.T) {
	for _, away := range []bool{false, true} {
		virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
			var gone atomic.Bool
			beforeScript(clients[0], nil, func(ctx context.Context) error {
				if gone.Load() {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
			afterScript(clients[0], extendScript, func(context.Context) error { return errLostReply })
			err := managers[0].Do(t.Context(), "a", func(ctx context.Context, _ *Lock) error {
				gone.Store(away)
				<-ctx.Done()
				redistest.ErrorIs(t, "the context of fn ended", context.Cause(ctx), ErrUnreachable)
				return nil
			})
			redistest.ErrorIs(t, "Do", err, ErrUnreachable)
			gone.Store(false)
			time.Sleep(DefaultTTL)
		})
	}
}
