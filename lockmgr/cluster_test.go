package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	client := cluster.Client()
	t.Run("keys share a slot", func(t *testing.T) {
		m := newManager(t, client, Options{})
		for _, name := range []string{"a", "{user:1}:cart", "x{y}", "张三"} {
			slots := map[int64]bool{}
			for _, key := range append(m.Keys(name), m.names.wakeChannel(name)) {
				slots[client.ClusterKeySlot(t.Context(), key).Val()] = true
			}
			redistest.ErrorIf(t, len(slots) != 1, "%q lies in %d slots", name, len(slots))
			mustRelease(t, mustAcquire(t, m, name))
		}
		for _, name := range []string{"{", "}a{", "{}a", "a}b"} {
			if _, err := m.Acquire(t.Context(), name); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "brace") {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
	t.Run("woken by a sharded channel", func(t *testing.T) {
		a, b := newManager(t, cluster.Client(), Options{Poll: time.Second}), newManager(t, cluster.Client(), Options{Poll: time.Second})
		// The waiters poll so rarely that a hundred handoffs by polling would take
		// longer than this test may.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for _, m := range []*Manager{a, b} {
			wg.Go(func() {
				for range 100 {
					lock, err := m.Acquire(ctx, "wake")
					if err != nil {
						t.Error(err)
						return
					}
					_ = lock.Release(ctx)
				}
			})
		}
		wg.Wait()
	})
	t.Run("a slot moves", func(t *testing.T) {
		m := newManager(t, client, Options{})
		lock := mustAcquire(t, m, "moving")
		cluster.BeginMove(m.Key("moving"))
		// Its keys are here, and those that do not exist would be there: whoever
		// wants the lock has to try again, and whoever has it keeps it.
		next := acquiring(t, newManager(t, cluster.Client(), Options{}), "moving")
		redistest.OK(t, lock.Extend(t.Context()))
		cluster.MoveKeys(m.Key("moving"))
		redistest.OK(t, lock.Extend(t.Context()))
		cluster.FinishMove(m.Key("moving"))
		if err := lock.Extend(t.Context()); err != nil { // MOVED
			t.Errorf("extend after its slot has moved: %v", err)
		}
		mustRelease(t, lock)
		mustRelease(t, redistest.Receive(t, next, "the waiter to get the lock"))
		contend(t, func() redis.UniversalClient { return cluster.Client() }, "moving", func() { cluster.Move(m.Key("moving")) })
	})
	t.Run("many slots move", func(t *testing.T) {
		m := newManager(t, cluster.Client(), Options{Pipelined: true})
		count := NewScript(`return redis.call('INCR', KEYS[4])`)
		var done [9]atomic.Int64
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range done {
			name := fmt.Sprint("many-", i)
			for range 4 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := m.Run(t.Context(), count, name, []string{m.Key(name) + ":N"}).Err(); err != nil {
							t.Error(err)
							return
						}
						done[i].Add(1)
					}
				})
			}
		}
		// wait waits until each of some has had more answers.
		wait := func(names ...int) {
			for _, i := range names {
				for enough := done[i].Load() + 10; done[i].Load() < enough && !t.Failed(); {
					runtime.Gosched()
				}
			}
		}
		for round := range 3 {
			var names []int
			for i := range done {
				names = append(names, (round+i)%len(done))
			}
			wait(names...)
			moving, staying := names[:5], names[5:]
			// Keys are here, are there, and are in between, all in one batch.
			for _, move := range []func(key string){cluster.BeginMove, cluster.MoveKeys, cluster.FinishMove} {
				for _, i := range moving {
					move(m.Key(fmt.Sprint("many-", i)))
					wait(staying...)
				}
			}
		}
		close(stop)
		wg.Wait()
	})
	t.Run("a master hangs, and the locks of others do not", func(t *testing.T) {
		m := newManager(t, cluster.Client(), Options{Pipelined: true})
		stuck := cluster.Owner(m.Key("stuck"))
		var free string
		for i := 0; free == ""; i++ {
			if name := fmt.Sprint("free-", i); cluster.Owner(m.Key(name)) != stuck {
				free = name
			}
		}
		mustRelease(t, mustAcquire(t, m, "stuck"))
		mustRelease(t, mustAcquire(t, m, free))
		stuck.Pause()
		defer cluster.WaitReady()
		defer stuck.Resume()
		// Those who are stuck try again and again, and would fill every pipeline there is.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		hanging, end := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for hanging.Err() == nil {
					if lock, err := m.Acquire(hanging, "stuck"); err == nil {
						_ = lock.Release(ctx)
					}
				}
			})
		}
		for range 1000 {
			lock := mustAcquire(t, m, free)
			redistest.OK(t, lock.Release(ctx))
		}
		end()
		wg.Wait()
	})
	t.Run("a master that does not answer is looked for elsewhere", func(t *testing.T) {
		client := cluster.Client()
		var looked atomic.Int32
		client.OnNewNode(func(node *redis.Client) {
			node.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
				if cmd.Name() == "cluster" {
					looked.Add(1)
				}
				return nil
			}})
		})
		m := newManager(t, client, Options{Pipelined: true})
		mustRelease(t, mustAcquire(t, m, "stuck"))
		stuck := cluster.Owner(m.Key("stuck"))
		stuck.Pause()
		defer cluster.WaitReady()
		defer stuck.Resume()
		before := looked.Load()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := m.Acquire(ctx, "stuck"); err == nil { // alone, and so past the pipelines
			t.Fatal("acquired from a server that stands still")
		}
		end := time.Now().Add(20 * time.Second)
		for looked.Load() == before && time.Now().Before(end) {
			runtime.Gosched()
		}
		redistest.ErrorIf(t, looked.Load() == before, "nobody looked")
	})
}
