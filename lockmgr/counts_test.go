package lockmgr

import (
	"context"
	"testing"

	"roomd/lockmgr/redistest"
)

// What the lock costs, as far as that does not depend on the machine. Who makes it cheaper lowers the numbers
// here; a change that needs more says why. Ten of the allocations of two requests are the client's.
var costs = []struct {
	name     string
	act      func(ctx context.Context, managers []*Manager) error
	requests float64 // to Redis, each a round trip
	commands float64 // that Redis runs, with those in scripts and the scripts themselves
	allocs   float64
}{
	{"acquire and release", func(ctx context.Context, m []*Manager) error { return hold(m[0].Acquire(ctx, "a")) }, 2, 7, 24},
	{"try and release", func(ctx context.Context, m []*Manager) error { return hold(m[0].TryAcquire(ctx, "a")) }, 2, 7, 25},
	{"do", func(ctx context.Context, m []*Manager) error {
		return m[0].Do(ctx, "a", func(context.Context, *Lock) error { return nil })
	}, 2, 7, 39},
	{"two locks at once", func(ctx context.Context, m []*Manager) error {
		locks, err := m[0].AcquireAll(ctx, "a", "b")
		if err != nil {
			return err
		}
		return locks.Release(ctx)
	}, 2, 16, 70}, // one script more of which replies are read, and one request less
	{"with others", func(ctx context.Context, m []*Manager) error { // as if others shared the round trips
		m[0].sender.underway.Add(maxDirect)
		defer m[0].sender.underway.Add(-maxDirect)
		return hold(m[0].TryAcquire(ctx, "a"))
	}, 2, 7, 51},
	{"extend", func(ctx context.Context, m []*Manager) error {
		lock, err := m[0].Acquire(ctx, "a")
		if err != nil {
			return err
		}
		if err := lock.Extend(ctx); err != nil {
			return err
		}
		return lock.Release(ctx)
	}, 3, 10, 44},
	{"held by another process", func(ctx context.Context, m []*Manager) error {
		lock, err := m[1].Acquire(ctx, "a")
		if err != nil {
			return err
		}
		if _, err := m[0].TryAcquire(ctx, "a"); err == nil {
			return errNoAnswer
		}
		return lock.Release(ctx)
	}, 3, 11, 44},
}

// hold ends a hold that has just begun.
func hold(lock *Lock, err error) error {
	if err != nil {
		return err
	}
	return lock.Release(context.Background())
}

func TestCosts(t *testing.T) {
	for _, c := range costs {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t)
			managers := []*Manager{newManager(t, server.Client(), Options{Pipelined: true}),
				newManager(t, server.Client(), Options{})}
			act := func() {
				redistest.OK(t, c.act(t.Context(), managers))
			}
			for range 20 { // scripts are loaded, connections made
				act()
			}
			const runs = 400
			requests, commands := server.Ran()
			allocs := testing.AllocsPerRun(runs-1, act)
			after, commandsAfter := server.Ran()
			perRequest, perCommand := (after-requests)/runs, (commandsAfter-commands)/runs
			t.Logf("%.2f requests, %.2f commands, %.0f allocations", perRequest, perCommand, allocs)
			const tolerance = 1.05 // a request may be sent again
			if perRequest > c.requests*tolerance || perCommand > c.commands*tolerance || allocs > c.allocs*tolerance {
				t.Errorf("%.2f requests, %.2f commands, %.0f allocations; %v, %v and %v are known", perRequest, perCommand, allocs, c.requests, c.commands, c.allocs)
			}
		})
	}
}
