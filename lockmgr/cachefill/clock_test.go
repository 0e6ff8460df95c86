package cachefill

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// stepClock changes an entry as a step of the server's clock would.
func stepClock(t *testing.T, client *redis.Client, e entry, step time.Duration) {
	t.Helper()
	for _, key := range []string{e.value, e.failure} {
		if n, err := client.Exists(t.Context(), key).Result(); err != nil || n == 0 {
			continue
		}
		at, err := client.HGet(t.Context(), key, "at").Int64()
		redistest.OK(t, err)
		client.HSet(t.Context(), key, "at", at-step.Microseconds())
		client.PExpire(t.Context(), key, client.PTTL(t.Context(), key).Val()-step)
	}
}

// The server's clock steps, and entries are loaded sooner, not kept longer.
func TestTheServersClockSteps(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"forward, past fresh": time.Minute,
		"forward, past stale": 2 * time.Minute,
		"back":                -time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, client := nodes(t, 2, Options{Fresh: time.Minute, Stale: time.Minute})
				e, _ := all[0].redis.entry("k")
				var calls atomic.Int32
				want(t, all[0], loader(&calls, 0), "value 1")
				time.Sleep(time.Second)
				stepClock(t, client, e, step)
				redistest.OK(t, redistest.Err(all[1].Get(t.Context(), "k", loader(&calls, 0))))
				synctest.Wait()
				want(t, all[0], mustNotLoad, "value 2")
			})
		})
	}
}

// A failure from the future, after a step of the clock, reaches nobody and delays no
// refresh.
func TestTheClockStepsBackAfterAFailure(t *testing.T) {
	broken := errors.New("the database is on fire")
	fail := func(context.Context) ([]byte, error) { return nil, broken }
	synctest.Test(t, func(t *testing.T) {
		all, client := nodes(t, 3, Options{Fresh: time.Minute, Stale: time.Hour})
		e, _ := all[0].redis.entry("k")
		var calls atomic.Int32
		want(t, all[0], loader(&calls, 0), "value 1")
		time.Sleep(time.Minute)
		want(t, all[0], fail, "value 1")
		synctest.Wait()
		stepClock(t, client, e, -time.Minute)
		client.HSet(t.Context(), e.value, "at", time.Now().Add(-time.Minute).UnixMicro())
		want(t, all[1], loader(&calls, 0), "value 1")
		synctest.Wait()
		want(t, all[1], mustNotLoad, "value 2")
	})
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		slow := redistest.MiniClient(t, r)
		first, second, third := newNode(t, slow, Options{}), newNode(t, client, Options{}),
			newNode(t, redistest.MiniClient(t, r), Options{})
		e, _ := first.redis.entry("k")
		redistest.ErrorIs(t, "the error is", redistest.Err(second.Get(t.Context(), "k", fail)), broken)
		// It looks while that is known. The clock steps while it waits for another.
		var wg sync.WaitGroup
		wg.Go(func() { want(t, third, loader(new(atomic.Int32), time.Second), "value 1") })
		time.Sleep(time.Millisecond)
		time.AfterFunc(500*time.Millisecond, func() {
			stepClock(t, client, e, -time.Hour)
			client.Del(t.Context(), first.locks.Key(e.lock)) // and the other loses its lock
		})
		want(t, first, loader(new(atomic.Int32), 0), "value 1")
		wg.Wait()
	})
}

// Nodes with different options share a cache: each accepts values of the age that its own
// options allow.
func TestOptionsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		slow := newNode(t, redistest.MiniClient(t, r), Options{Fresh: time.Minute, Stale: time.Hour})
		quick := newNode(t, client, Options{Fresh: 10 * time.Second})
		long := newNode(t, redistest.MiniClient(t, r), Options{Fresh: time.Hour})
		var calls atomic.Int32
		load := loader(&calls, 0)
		want(t, slow, load, "value 1")
		want(t, quick, load, "value 1")
		time.Sleep(10 * time.Second)
		want(t, slow, load, "value 1")
		want(t, long, load, "value 1")
		want(t, quick, load, "value 2") // which goes after 10 s
		want(t, slow, load, "value 2")
		time.Sleep(10 * time.Second)
		want(t, slow, load, "value 3")
		time.Sleep(30 * time.Minute)
		want(t, long, load, "value 3")
		want(t, slow, load, "value 3")
		synctest.Wait()
		want(t, long, load, "value 4")
	})
	// A value that expires before the others poll is loaded again, by one of them at a
	// time, and is no error.
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		short := newNode(t, client, Options{Fresh: 20 * time.Millisecond, Poll: 10 * time.Millisecond})
		var wg sync.WaitGroup
		var now, calls atomic.Int32
		load := func(context.Context) ([]byte, error) {
			redistest.ErrorIf(t, now.Add(1) > 1, "two loads at a time")
			defer now.Add(-1)
			calls.Add(1)
			time.Sleep(time.Second)
			return []byte("value"), nil
		}
		wg.Go(func() { want(t, short, load, "value") })
		time.Sleep(time.Millisecond)
		for range 2 {
			c := newNode(t, redistest.MiniClient(t, r), Options{})
			wg.Go(func() { want(t, c, load, "value") })
		}
		wg.Wait()
		n := calls.Load()
		redistest.ErrorIf(t, n > 2, "%d loads", n)
	})
}
