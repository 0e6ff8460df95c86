package cachefill

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

func TestLoadErrorReachesAll(t *testing.T) {
	virtually(t, 4, Options{}, func(t *testing.T, all []*Cache, client *redis.Client) {
		var calls, here, elsewhere atomic.Int32
		load := func(context.Context) ([]byte, error) {
			calls.Add(1)
			time.Sleep(time.Second)
			return []byte("half a value"), errOnFire
		}
		for round := 1; round <= 2; round++ { // who comes later tries again
			var wg sync.WaitGroup
			start := time.Now()
			for i, c := range all {
				for j := range 10 {
					wg.Go(func() {
						time.Sleep(time.Duration(i*10+j) * time.Millisecond)
						_, err := c.Get(t.Context(), "k", load)
						switch {
						case errors.Is(err, errOnFire):
							here.Add(1)
						case errors.Is(err, ErrLoadFailed) && strings.Contains(err.Error(), errOnFire.Error()):
							elsewhere.Add(1)
						default:
							t.Errorf("unexpected: %v", err)
						}
					})
				}
			}
			wg.Wait()
			took := time.Since(start)
			redistest.ErrorIf(t, took > time.Second+2*lockmgr.DefaultWaitPoll, "the error took %v", took)
			n := calls.Load()
			redistest.ErrorIf(t, n != int32(round), "%d loads in %d rounds", n, round)
			free(t, all[0], client)
			redistest.Equal(t, "a failed load has stored something:", client.Exists(t.Context(), "Cache:k").Val(), 0)
		}
		redistest.ErrorIf(t, here.Load() != 20 || elsewhere.Load() != 60,
			"%d got the error in its process, %d elsewhere", here.Load(), elsewhere.Load())
		want(t, all[2], loads(), "value 1")
		n := client.Exists(t.Context(), "Lock:Cache:k:Fill:Failure").Val()
		redistest.ErrorIf(t, n != 0, "the failure is still known")
	})
}

// While refreshing fails, callers get the stale value, and not every call tries again; also if Redis refuses the lock,
// and so cannot be told of the failure.
func TestFailedRefresh(t *testing.T) {
	full := errors.New("OOM command not allowed")
	for _, tt := range []struct {
		refused bool
		load    Loader
		why     error
	}{{false, broken(errOnFire), errOnFire}, {true, mustNotLoad, full}} {
		var told, loaded atomic.Int32
		load := func(ctx context.Context) ([]byte, error) { loaded.Add(1); return tt.load(ctx) }
		opts := Options{Fresh: time.Minute, Stale: time.Hour, Failed: func(key string, err error) {
			redistest.Equal(t, "told of", key, "k")
			redistest.ErrorIf(t, !strings.Contains(err.Error(), tt.why.Error()), "told %v", err)
			told.Add(1)
		}}
		synctest.Test(t, func(t *testing.T) {
			_, client := redistest.Mini(t)
			all := []*Cache{newNode(t, client, opts), newNode(t, client, opts)}
			want(t, all[0], loads(), "value 1")
			client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
				if tt.refused && isScript(cmd) && cmd.Args()[2] == 3 { // it is about the lock alone
					return full
				}
				return nil
			}})
			time.Sleep(time.Minute)
			for range 1000 { // 10 s
				for _, c := range all {
					want(t, c, load, "value 1")
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		n, most := loaded.Load(), int32(11)
		if tt.refused { // no cache knows of the other's failures
			n, most = told.Load(), 2*most
		}
		redistest.ErrorIf(t, told.Load() < n, "%d attempts, and %d were told", n, told.Load())
		redistest.ErrorIf(t, n < 9 || n > most, "%d attempts in 10s, with a backoff of %v", n, DefaultBackoff)
	}
}

// A load function panics, ends its goroutine, or returns an error of ours, because it uses locks and caches of its own:
// the load has failed like any other, and all who wait are told.
func TestLoadersThatFail(t *testing.T) {
	outOfRange := errors.New("index out of range")
	panicked := func(is func(*PanicError) bool) func(error) bool {
		return func(err error) bool {
			p, ok := errors.AsType[*PanicError](err)
			return ok && is(p) && len(p.Stack) > 0
		}
	}
	type failing struct {
		load Loader
		told func(error) bool
	}
	all := map[string]failing{
		"panic": {func(context.Context) ([]byte, error) { panic("oh no") },
			panicked(func(p *PanicError) bool { return p.Value == "oh no" })},
		"panic with an error": {func(context.Context) ([]byte, error) { panic(outOfRange) },
			panicked(func(p *PanicError) bool { return errors.Is(p, outOfRange) })},
		"goexit": {func(context.Context) ([]byte, error) { runtime.Goexit(); return nil, nil },
			panicked(func(p *PanicError) bool { return p.Value == nil })},
	}
	for _, inner := range []error{lockmgr.ErrLost, lockmgr.ErrClosed, ErrTimeout, context.Canceled} {
		all[inner.Error()] = failing{broken(fmt.Errorf("the seller's account: %w", inner)),
			func(err error) bool { return errors.Is(err, inner) }}
	}
	for name, tt := range all {
		t.Run(name, func(t *testing.T) {
			virtually(t, 2, Options{}, func(t *testing.T, all []*Cache, client *redis.Client) {
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						_, err := all[0].Get(t.Context(), "k", func(ctx context.Context) ([]byte, error) {
							time.Sleep(time.Second)
							return tt.load(ctx)
						})
						redistest.ErrorIf(t, !tt.told(err), "in its process: %v", err)
					})
				}
				time.Sleep(time.Millisecond)
				fails(t, all[1], mustNotLoad, ErrLoadFailed, "")
				wg.Wait()
				free(t, all[0], client)
				want(t, all[1], loads(), "value 1")
			})
		})
	}
}

func TestTimeouts(t *testing.T) {
	virtually(t, 2, Options{Load: 20 * time.Second}, func(t *testing.T, all []*Cache, client *redis.Client) {
		var wg sync.WaitGroup
		wg.Go(func() { // a load takes its time, with its lock kept
			start := time.Now()
			_, err := all[0].Get(t.Context(), "k",
				func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
			redistest.ErrorIf(t, !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 20*time.Second,
				"%v after %v", err, time.Since(start))
		})
		time.Sleep(time.Second)
		start := time.Now()
		_, err := all[1].Get(t.Context(), "k", loads())
		redistest.ErrorIf(t, !errors.Is(err, ErrTimeout) || time.Since(start) != lockmgr.DefaultWaitTimeout,
			"%v after %v", err, time.Since(start))
		time.Sleep(13 * time.Second) // waits for the end of it, and hears of it
		fails(t, all[1], mustNotLoad, ErrLoadFailed, "longer than 20s")
		wg.Wait()
	})
}

// The loader died in the middle of a load. When its lock has expired the first waiter takes
// over. A failure from before the waiters asked does not reach them.
func TestLoaderDies(t *testing.T) {
	virtually(t, 3, Options{}, func(t *testing.T, all []*Cache, client *redis.Client) {
		e, _ := all[0].redis.entry("k")
		client.Set(t.Context(), all[0].locks.Key(e.lock), "a dead node's", lockmgr.DefaultWaitTTL)
		client.HSet(t.Context(), e.failure, "message", "old", "by", "another dead node's", "at", time.Now().UnixMicro())
		client.PExpire(t.Context(), e.failure, time.Minute)
		time.Sleep(time.Millisecond)
		start := time.Now()
		var calls atomic.Int32
		var wg sync.WaitGroup
		for _, c := range all {
			wg.Go(func() { want(t, c, loader(&calls, 0), "value 1") })
		}
		wg.Wait()
		if took := time.Since(start); calls.Load() != 1 || took > lockmgr.DefaultWaitTTL+2*lockmgr.DefaultWaitPoll {
			t.Errorf("%d loads, after %v", calls.Load(), took)
		}
	})
}

// Redis is away: no value, no hidden load; and a value that was loaded is not lost.
func TestRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		gone := errors.New("no route to host")
		away := awayWhile(client, gone)
		var told error
		c := newNode(t, client, Options{Failed: func(_ string, err error) { told = err }})
		want(t, c, func(context.Context) ([]byte, error) { away.Store(true); return []byte("v"), nil }, "v")
		redistest.ErrorIf(t, !errors.Is(told, gone), "told %v", told)
		fails(t, c, mustNotLoad, gone, "")
	})
}

// A caller that gives up disturbs nobody, not even if it began the load.
func TestCallerLeaves(t *testing.T) {
	type tag struct{}
	reason := errors.New("the player closed the window")
	virtually(t, 2, Options{}, func(t *testing.T, all []*Cache, _ *redis.Client) {
		var wg sync.WaitGroup
		ctx, cancel := context.WithTimeoutCause(context.WithValue(t.Context(), tag{}, "trace"), time.Second, reason)
		defer cancel()
		load := func(ctx context.Context) ([]byte, error) {
			redistest.ErrorIf(t, ctx.Value(tag{}) != "trace", "the context has lost its values")
			select {
			case <-time.After(2 * time.Second):
				return []byte("value"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		wg.Go(func() {
			start := time.Now()
			if _, err := all[0].Get(ctx, "k", load); !errors.Is(err, reason) || time.Since(start) != time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
		time.Sleep(time.Millisecond)
		for _, c := range all {
			var values [2][]byte
			for i := range values {
				wg.Go(func() {
					value, err := c.Get(t.Context(), "k", mustNotLoad)
					if err != nil || string(value) != "value" {
						t.Errorf("%q, %v", value, err)
						return
					}
					value[0] = byte('0' + i) // it is this caller's own
					values[i] = value
				})
			}
		}
		wg.Wait()
		redistest.ErrorIs(t, "with a context that has ended", redistest.Err(all[0].Get(ctx, "k", mustNotLoad)), reason)
	})
}

func TestCloseEndsAll(t *testing.T) {
	virtually(t, 2, Options{Fresh: time.Second, Stale: time.Hour, Backoff: time.Minute}, func(t *testing.T, all []*Cache, client *redis.Client) {
		var ended atomic.Int32
		load := func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // it takes a moment to stop
			ended.Add(1)
			return nil, ctx.Err()
		}
		var wg sync.WaitGroup
		for _, c := range all { // one loads, one waits
			wg.Go(func() {
				fails(t, c, load, lockmgr.ErrClosed, "")
			})
			time.Sleep(time.Millisecond)
		}
		all[1].Close()
		all[0].Close()
		wg.Wait()
		redistest.ErrorIf(t, ended.Load() != 1, "Close has not waited for the load")
		free(t, all[0], client)
		n := client.Exists(t.Context(), "Lock:Cache:k:Fill:Failure").Val()
		redistest.ErrorIf(t, n != 0, "that a node was closed counts as a failed load")
		fails(t, all[0], load, lockmgr.ErrClosed, "")
		c := newNode(t, client, Options{Fresh: time.Second, Stale: time.Hour}) // one that refreshes
		want(t, c, loads(), "value 1")
		time.Sleep(time.Second)
		want(t, c, load, "value 1")
		synctest.Wait()
		c.Close()
		redistest.ErrorIf(t, ended.Load() != 2, "Close has not waited for the refresh")
		free(t, c, client)
	})
}
