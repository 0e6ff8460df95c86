package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/loadtest/internal/scratch"
	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
	"roomd/lockmgr/redistest"
)

// noLock is no lock at all.
var noLock = locker{func(context.Context, string) (func() error, error) { return func() error { return nil }, nil }, func() {}}

// deafLock is a lock whose waiters never hear that it is theirs.
var deafLock = locker{acquire: func(ctx context.Context, _ string) (func() error, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}}

// What is no lock is found, and named.
func TestLocks_HeldTwice(t *testing.T) {
	b := testBench(t, redistest.Start(t).URL())
	load := workload{name: "locks-two-nodes", clients: 4, rooms: 1, nodes: 2, kind: ofLocks}
	r := mustCell(t, b, load, contender{name: "none", locker: func(target) (locker, error) { return noLock, nil }})
	if wrong := r.wrong(); r.Violations.Shared == 0 || len(wrong) != 1 || !strings.Contains(wrong[0], "mutual exclusion was violated") {
		t.Errorf("%+v, %q", r.Violations, r.wrong())
	}
}

// A wake-up that never comes is an error long before the measurement ends.
func TestLocks_LostWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := make([]atomic.Int64, 1)
		holders := []*holder{{locker: deafLock, keys: []string{"x"}, owners: owners, id: 1}, {locker: deafLock, keys: []string{"x"}, owners: owners, id: 2}}
		got, err := drive(t.Context(), driver{duration: 5 * lostWakeUp / 2, probe: ticking()}, holders)
		sum := tally.Sum(got.actors...)
		if n, _ := sum.Errors(); err != nil || n < 4 || sum.Done.Load() != 0 || !strings.Contains(sum.FirstError().Error(), lostWakeUp.String()) {
			t.Errorf("%v, %d errors, the first %v, %d holds", err, n, sum.FirstError(), sum.Done.Load())
		}
	})
}

// BenchmarkPaired lets the contenders take turns, one hold each, so that whatever else the machine does meets
// all alike. times-as-fast compares the medians of lockmgr and redislock, the fastest of the others. rueidislock
// does not take part: it forgets to wake a waiter at times, and its goroutines slow down whoever follows it.
func BenchmarkPaired(b *testing.B) {
	server, err := scratch.Open(b.Context(), redistest.Start(b).URL())
	redistest.OK(b, err)
	b.Cleanup(server.Close)
	order := slices.DeleteFunc(of(workload{kind: ofLocks}), func(c contender) bool { return c.name == "rueidislock" })
	opened, took := make(map[string]locker), make(map[string][]float64)
	for _, c := range order {
		opened[c.name], err = c.locker(target{redis: server, connections: 1})
		redistest.OK(b, err)
		b.Cleanup(opened[c.name].close)
	}
	for b.Loop() {
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, c := range order {
			start := time.Now()
			release, err := acquire(b.Context(), opened[c.name], "bench:"+c.name)
			redistest.OK(b, err)
			redistest.OK(b, release())
			took[c.name] = append(took[c.name], float64(time.Since(start).Nanoseconds())/1000)
		}
	}
	for name, list := range took {
		b.ReportMetric(report.Median(list), name+"-µs")
	}
	b.ReportMetric(report.Median(took["redislock"])/report.Median(took[lockmgrName]), "times-as-fast")
}
