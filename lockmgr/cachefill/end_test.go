package cachefill

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// A caller that gives up disturbs nobody, not even if it began the load.
func TestCallerLeaves(t *testing.T) {
	type tag struct{}
	reason := errors.New("the player closed the window")
	synctest.Test(t, func(t *testing.T) {
		all, _ := nodes(t, 2, Options{})
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
	synctest.Test(t, func(t *testing.T) {
		all, client := nodes(t, 2, Options{Fresh: time.Second, Stale: time.Hour, Backoff: time.Minute})
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
				_, err := c.Get(t.Context(), "k", load)
				redistest.ErrorIf(t, !errors.Is(err, lockmgr.ErrClosed), "while it was closed: %v", err)
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
		redistest.ErrorIs(t, "after Close", redistest.Err(all[0].Get(t.Context(), "k", load)), lockmgr.ErrClosed)
		c := newNode(t, client, Options{Fresh: time.Second, Stale: time.Hour}) // one that refreshes
		want(t, c, loader(new(atomic.Int32), 0), "value 1")
		time.Sleep(time.Second)
		want(t, c, load, "value 1")
		synctest.Wait()
		c.Close()
		redistest.ErrorIf(t, ended.Load() != 2, "Close has not waited for the refresh")
		free(t, c, client)
	})
}
