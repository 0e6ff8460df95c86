package cachefill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// newNode returns the cache of one process, closed with the test.
func newNode(t testing.TB, client redis.UniversalClient, opts Options) *Cache {
	t.Helper()
	locks, err := lockmgr.New(client, lockmgr.Options{})
	redistest.OK(t, err)
	t.Cleanup(locks.Close)
	c, err := New(locks, opts)
	redistest.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

// nodes returns the caches of several processes, and one more client.
func nodes(t testing.TB, n int, opts Options) ([]*Cache, *redis.Client) {
	t.Helper()
	r, client := redistest.Mini(t)
	all := make([]*Cache, n)
	for i := range all {
		all[i] = newNode(t, redistest.MiniClient(t, r), opts)
	}
	return all, client
}

// loader counts its calls and takes a while.
func loader(calls *atomic.Int32, takes time.Duration) Loader {
	return func(context.Context) ([]byte, error) {
		n := calls.Add(1)
		time.Sleep(takes)
		return fmt.Appendf(nil, "value %d", n), nil
	}
}

// virtually runs a test in virtual time with the caches of several processes, and one more client. In the end nobody
// has the lock of the entry.
func virtually(t *testing.T, n int, opts Options, test func(t *testing.T, all []*Cache, client *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		all, client := nodes(t, n, opts)
		test(t, all, client)
		free(t, all[0], client)
	})
}

// awayWhile makes a client fail with that error while the switch that it returns is on.
func awayWhile(client *redis.Client, why error) (away *atomic.Bool) {
	away = new(atomic.Bool)
	client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error {
		if away.Load() {
			return why
		}
		return nil
	}})
	return away
}

func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

func mustNotLoad(context.Context) ([]byte, error) { panic("must not be called") }

func want(t testing.TB, c *Cache, load Loader, value string) {
	t.Helper()
	got, err := c.Get(t.Context(), "k", load)
	redistest.ErrorIf(t, err != nil || string(got) != value, "%q, %v; want %q", got, err, value)
}

// fails expects a Get to fail so.
func fails(t testing.TB, c *Cache, load Loader, target error, says string) {
	t.Helper()
	redistest.ErrorSays(t, "Get", redistest.Err(c.Get(t.Context(), "k", load)), target, says)
}

// loads returns a Loader that takes no time.
func loads() Loader { return loader(new(atomic.Int32), 0) }

// broken returns a Loader that fails.
func broken(err error) Loader { return func(context.Context) ([]byte, error) { return nil, err } }

var errOnFire = errors.New("the database is on fire")

// everythingExpires expects that all keys have a TTL.
func everythingExpires(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	for _, key := range client.Keys(t.Context(), "*").Val() {
		ttl := client.PTTL(t.Context(), key).Val()
		redistest.ErrorIf(t, ttl <= 0, "%s has TTL %v", key, ttl)
	}
}

// free expects that nobody loads, or waits for the lock.
func free(t testing.TB, c *Cache, client redis.UniversalClient) {
	t.Helper()
	e, err := c.redis.entry("k")
	redistest.OK(t, err)
	redistest.Equal(t, "the lock is left over:", client.Exists(t.Context(), c.locks.Keys(e.lock)[:2]...).Val(), 0)
	everythingExpires(t, client)
}

// However callers of several nodes overlap, only one of them loads.
func TestOneLoadForAll(t *testing.T) {
	virtually(t, 5, Options{}, func(t *testing.T, all []*Cache, client *redis.Client) {
		var calls atomic.Int32
		for round := 1; round <= 3; round++ { // the later ones at an entry that has expired
			var wg sync.WaitGroup
			for _, c := range all {
				for i := range 20 {
					wg.Go(func() {
						time.Sleep(time.Duration(i%5) * 150 * time.Millisecond)
						want(t, c, loader(&calls, 500*time.Millisecond), fmt.Sprintf("value %d", round))
					})
				}
			}
			wg.Wait()
			n := calls.Load()
			redistest.FatalIf(t, n != int32(round), "%d loads in %d rounds", n, round)
			free(t, all[0], client)
			time.Sleep(DefaultFresh)
		}
		time.Sleep(10 * time.Minute) // the last fence goes after that
		keys := client.Keys(t.Context(), "*").Val()
		redistest.ErrorIf(t, len(keys) != 0, "left over: %v", keys)
	})
}

// The same on real servers: the loader waits until all other nodes wait for it.
func testOneLoad(t *testing.T, clients []redis.UniversalClient) {
	var calls atomic.Int32
	var others sync.WaitGroup
	others.Add(len(clients) - 1)
	load := func(context.Context) ([]byte, error) {
		calls.Add(1)
		others.Wait()
		return []byte("value"), nil
	}
	var wg sync.WaitGroup
	for _, client := range clients {
		looked := sync.OnceFunc(others.Done)
		client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if cmd.Name() == "get" { // only who waits for another asks so
				looked()
			}
			return nil
		}})
		c := newNode(t, client, Options{Poll: 10 * time.Millisecond, Load: time.Minute, Wait: time.Minute})
		for range 25 {
			wg.Go(func() { want(t, c, load, "value") })
		}
	}
	wg.Wait()
	redistest.Equal(t, "loads:", calls.Load(), 1)
}

func TestOneLoadOnRedis(t *testing.T) {
	server := redistest.Start(t)
	testOneLoad(t, []redis.UniversalClient{server.Client(), server.Client(), server.Client(), server.Client()})
	everythingExpires(t, server.Client())
}

func TestOneLoadOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	testOneLoad(t, []redis.UniversalClient{cluster.Client(), cluster.Client(), cluster.Client()})
	c := newNode(t, cluster.Client(), Options{})
	for _, key := range []string{"{k}", "k}", "{"} {
		_, err := c.Get(t.Context(), key, loads())
		redistest.ErrorIf(t, !errors.Is(err, lockmgr.ErrInvalid), "key %q: %v", key, err)
	}
}

// Every caller gets the same of a load that returned nil: a value that is empty.
func TestANilValueIsEmpty(t *testing.T) {
	_, client := redistest.Mini(t)
	for i, c := range []*Cache{newNode(t, client, Options{}), newNode(t, client, Options{})} {
		got, err := c.Get(t.Context(), "k", func(context.Context) ([]byte, error) { return nil, nil })
		redistest.ErrorIf(t, err != nil || got == nil || len(got) != 0, "caller %d: %#v, %v", i, got, err)
	}
}

// Somebody else loads after this caller has found no value, before it gets the lock.
func TestLoadedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		late := redistest.MiniClient(t, r)
		c, other := newNode(t, late, Options{}), newNode(t, client, Options{})
		var meanwhile func()
		late.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if meanwhile != nil && isScript(cmd) { // the first one was the look
				do := meanwhile
				meanwhile = nil
				do()
			}
			return nil
		}})
		meanwhile = func() {
			fails(t, other, broken(errOnFire), errOnFire, "")
		}
		fails(t, c, mustNotLoad, ErrLoadFailed, "")
		time.Sleep(time.Millisecond)
		meanwhile = func() { want(t, other, loads(), "value 1") }
		want(t, c, mustNotLoad, "value 1")
		free(t, c, client)
	})
}

func TestFreshThenStaleThenGone(t *testing.T) {
	virtually(t, 3, Options{Fresh: time.Minute, Stale: time.Minute}, func(t *testing.T, all []*Cache, client *redis.Client) {
		var calls atomic.Int32
		load := loader(&calls, time.Second)
		want(t, all[0], load, "value 1")
		atOnce := func(value string) {
			t.Helper()
			start := time.Now()
			var wg sync.WaitGroup
			for _, c := range all {
				for range 10 {
					wg.Go(func() { want(t, c, load, value) })
				}
			}
			wg.Wait()
			redistest.Equal(t, "took", time.Since(start), 0)
		}
		time.Sleep(time.Minute - time.Millisecond)
		atOnce("value 1")
		redistest.Equal(t, "loads of a fresh value:", calls.Load(), 1)
		time.Sleep(time.Millisecond)
		for range 5 { // while one caller refreshes it
			atOnce("value 1")
			time.Sleep(199 * time.Millisecond)
		}
		time.Sleep(15 * time.Millisecond)
		atOnce("value 2")
		time.Sleep(2*time.Minute - 20*time.Millisecond)
		atOnce("value 2") // stale for the last time
		time.Sleep(2 * time.Second)
		atOnce("value 3")
		time.Sleep(2 * time.Minute) // nothing is left to serve
		start := time.Now()
		want(t, all[1], load, "value 4")
		redistest.Equal(t, "took", time.Since(start), time.Second)
		redistest.Equal(t, "loads, want 4:", calls.Load(), 4)
	})
}

// A refresh that takes longer than others wait for it is no failure: they have the
// old value.
func TestSlowRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		opts := Options{Fresh: time.Minute, Stale: time.Hour, Load: time.Minute, Failed: func(_ string, err error) {
			t.Errorf("told %v", err)
		}}
		first, second := newNode(t, client, opts), redistest.MiniClient(t, r)
		var looks atomic.Int32
		second.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if cmd.Name() == "get" {
				looks.Add(1)
			}
			return nil
		}})
		c := newNode(t, second, opts)
		var calls atomic.Int32
		load := loader(&calls, 10*time.Second)
		want(t, c, load, "value 1")
		time.Sleep(time.Minute)
		want(t, first, load, "value 1")
		for range 90 { // 9 s
			want(t, c, load, "value 1")
			time.Sleep(100 * time.Millisecond)
		}
		n := looks.Load()
		redistest.ErrorIf(t, n > 91, "%d looks at who loads: more than one caller waits", n)
		time.Sleep(10 * time.Second)
		want(t, c, load, "value 2")
		redistest.Equal(t, "loads:", calls.Load(), 2)
	})
}

// A load that asks for its own entry, also through the load of another, would wait for itself.
func TestALoadThatWaitsForItself(t *testing.T) {
	virtually(t, 2, Options{}, func(t *testing.T, all []*Cache, _ *redis.Client) {
		c := all[0]
		get := func(key string, then Loader) Loader {
			return func(ctx context.Context) ([]byte, error) { return c.Get(ctx, key, then) }
		}
		fails(t, c, get("k", mustNotLoad), lockmgr.ErrInvalid, "")
		by := redistest.Err(c.Get(t.Context(), "a", get("b", get("a", mustNotLoad))))
		redistest.ErrorIs(t, "by way of another", by, lockmgr.ErrInvalid)
	})
}
