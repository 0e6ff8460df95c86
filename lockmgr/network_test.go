package lockmgr

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// operations are all operations on a lock, with the scripts that they run.
var operations = []struct {
	name   string
	script *redis.Script
	do     func(ctx context.Context, m *Manager, lock *Lock) (*Lock, error)
}{
	{"acquire", acquireScript, func(ctx context.Context, m *Manager, _ *Lock) (*Lock, error) { return m.Acquire(ctx, "a") }},
	{"try", tryScript, func(ctx context.Context, m *Manager, _ *Lock) (*Lock, error) { return m.TryAcquire(ctx, "a") }},
	{"extend", extendScript, func(ctx context.Context, _ *Manager, lock *Lock) (*Lock, error) { return lock, lock.Extend(ctx) }},
	{"release", releaseScript, func(ctx context.Context, _ *Manager, lock *Lock) (*Lock, error) { return nil, lock.Release(ctx) }},
}

// A proxy loses the request or the reply of each command of each operation, with clients that
// retry and clients that do not. No caller is locked out by its own lock, no lock is left
// behind, and nobody loses one.
func TestLostRequestsAndReplies(t *testing.T) {
	server := redistest.Start(t)
	for _, retries := range []int{-1, 3} {
		for _, op := range operations {
			for _, action := range []redistest.Action{redistest.DropRequest, redistest.DropReply, redistest.HoldReply} {
				t.Run(fmt.Sprintf("%s, action %d, retries %d", op.name, action, retries), func(t *testing.T) {
					plain := server.Client()
					plain.FlushAll(t.Context())
					proxy := redistest.StartProxy(t, server.Addr())
					client := redis.NewClient(&redis.Options{
						Addr: proxy.Addr(), MaxRetries: retries, ContextTimeoutEnabled: true, ReadTimeout: 200 * time.Millisecond, DialerRetries: 1,
					})
					defer client.Close()
					m := newManager(t, client, Options{TTL: time.Minute})
					for _, o := range operations {
						redistest.OK(t, o.script.Load(t.Context(), plain).Err())
					}
					lock := mustAcquire(t, m, "a")
					if op.script == acquireScript || op.script == tryScript {
						mustRelease(t, lock)
						lock = nil
					}
					var lost atomic.Int32
					proxy.OnRequest(func(args []string) redistest.Action {
						if len(args) > 1 && args[1] == op.script.Hash() && lost.CompareAndSwap(0, 1) {
							return action
						}
						return redistest.Pass
					})
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					lock2, err := op.do(ctx, m, lock)
					redistest.FatalIf(t, lost.Load() != 1, "nothing was lost")
					redistest.FatalIf(t, retries > 0 && err != nil, "the client sent it again, and: %v", err)
					if err != nil { // the caller tries again, and succeeds
						if lock2, err = op.do(ctx, m, lock); err != nil {
							t.Fatalf("again: %v", err)
						}
					}
					holder := plain.Get(t.Context(), "Lock:a").Val()
					if strings.HasPrefix(op.name, "release") {
						redistest.ErrorIf(t, holder != "", "after the release the lock holds %q", holder)
					} else {
						redistest.ErrorIf(t, holder != lock2.Token(),
							"the lock holds %q, the caller %q", holder, lock2.Token())
						mustRelease(t, lock2)
					}
					// Whoever comes next gets it at once.
					next, err := m.TryAcquire(t.Context(), "a")
					redistest.FatalIf(t, err != nil, "the next one: %v", err)
					if lock != nil {
						_ = lock.Release(t.Context()) // a second release takes nothing away
					}
					redistest.Equal(t, "the next one's lock holds", plain.Get(t.Context(), "Lock:a").Val(), next.Token())
					mustRelease(t, next)
					checkClean(t, plain)
				})
			}
		}
	}
}

// contend has managers, each with its own client, take the same lock in turn, during meanwhile
// and for some time after it. No two holds overlap.
func contend(t *testing.T, client func() redis.UniversalClient, name string, meanwhile func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	inside, holds, last := 0, 0, int64(0)
	enough := make(chan struct{})
	for range 3 {
		m := newManager(t, client(), Options{})
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					lock, err := m.Acquire(ctx, name)
					if err != nil {
						continue // Redis moves or fails over: try again
					}
					mu.Lock()
					if inside++; inside > 1 && lock.Err() == nil {
						t.Error("two hold the lock at once")
					}
					redistest.ErrorIf(t, lock.Fence() <= last, "fence %d after %d", lock.Fence(), last)
					last = lock.Fence()
					mu.Unlock()
					mu.Lock()
					inside--
					if holds++; holds == 200 {
						close(enough)
					}
					mu.Unlock()
					_ = lock.Release(context.WithoutCancel(ctx))
				}
			})
		}
	}
	meanwhile()
	mu.Lock()
	holds = 0
	mu.Unlock()
	select {
	case <-enough:
	case <-time.After(20 * time.Second):
		t.Error("waited 20s for 200 holds after it")
	}
	stop()
	wg.Wait()
}
