package cachefill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// A caller gets the failure of a load only if it asked before that: in the process that
// loaded, before the load function returned; in others, before Redis knew of the failure.
func TestNobodyIsToldAnEarlierFailure(t *testing.T) {
	number := regexp.MustCompile(`load (\d+) failed`)
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if seed >= 5 {
				redistest.Thorough(t)
			}
			synctest.Test(t, func(t *testing.T) { testNobodyIsToldAnEarlierFailure(t, seed, number) })
		})
	}
}

func testNobodyIsToldAnEarlierFailure(t *testing.T, seed uint64, number *regexp.Regexp) {
	random := rand.New(rand.NewPCG(seed, 0))
	r, _ := redistest.Mini(t)
	var mu sync.Mutex
	var ends []time.Time             // guarded by mu: of loads
	known := make(map[int]time.Time) // guarded by mu: to Redis
	of := func(what any) int {
		n := -1
		if found := number.FindStringSubmatch(fmt.Sprint(what)); found != nil {
			fmt.Sscan(found[1], &n)
		}
		return n
	}
	var all []*Cache
	for range 3 {
		client := redistest.MiniClient(t, r)
		delay := time.Duration(1+random.IntN(40)) * time.Millisecond
		client.AddHook(redistest.Hook{
			Before: func(context.Context, redis.Cmder) error { time.Sleep(delay / 2); return nil },
			After: func(_ context.Context, cmd redis.Cmder) error {
				mu.Lock()
				known[of(cmd.Args())] = time.Now()
				mu.Unlock()
				time.Sleep(delay / 2)
				return nil
			},
		})
		all = append(all, newNode(t, client, Options{}))
	}
	load := func(context.Context) ([]byte, error) {
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		ends = append(ends, time.Now())
		return nil, fmt.Errorf("load %d failed", len(ends)-1)
	}
	var wg sync.WaitGroup
	var told atomic.Int32
	for i := range 300 {
		after := time.Duration(random.IntN(3000)) * time.Millisecond
		wg.Go(func() {
			time.Sleep(after)
			came := time.Now()
			_, err := all[i%3].Get(t.Context(), "k", load)
			n := of(err)
			if n < 0 {
				t.Errorf("seed %d: %v", seed, err)
				return
			}
			told.Add(1)
			mu.Lock()
			defer mu.Unlock()
			over := ends[n]
			if errors.Is(err, ErrLoadFailed) {
				over = known[n]
			}
			redistest.ErrorIf(t, over.Before(came),
				"seed %d: came %v after the end of the load it was told of: %v", seed, came.Sub(over), err)
		})
	}
	wg.Wait()
	n := len(ends)
	redistest.ErrorIf(t, n > 40 || told.Load() != 300, "seed %d: %d loads, %d were told", seed, n, told.Load())
}

// Between two failures somebody holds the lock without loading, because its request was
// under way when the first load failed. Whoever waits for that hold then loads.
func TestAfterAHoldWithoutALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		slow := redistest.MiniClient(t, r)
		second, first, third := newNode(t, slow, Options{}), newNode(t, client, Options{}),
			newNode(t, redistest.MiniClient(t, r), Options{})
		requests := 0
		slow.AddHook(redistest.Hook{After: func(ctx context.Context, cmd redis.Cmder) error {
			if !isScript(cmd) {
				return nil
			}
			switch requests++; requests {
			case 1: // it has looked, and the first load fails
				_, err := first.Get(ctx, "k", broken(errOnFire))
				redistest.ErrorIf(t, !errors.Is(err, errOnFire), "%v", err)
			case 2: // it has the lock
				time.Sleep(DefaultBackoff / 2)
			}
			return nil
		}})
		var wg sync.WaitGroup
		wg.Go(func() { fails(t, second, mustNotLoad, ErrLoadFailed, "") })
		time.Sleep(time.Millisecond)
		want(t, third, loads(), "value 1")
		wg.Wait()
		free(t, third, client)
	})
}
