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

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/redisserver"
	"roomd/lockmgr/redistest"
)

// noLock is no lock at all.
type noLock struct{}

func (noLock) acquire(context.Context, string) (func() error, error) {
	return func() error { return nil }, nil
}
func (noLock) close() {}

// deafLock is a lock whose waiters never hear that it is theirs.
type deafLock struct{ noLock }

func (deafLock) acquire(ctx context.Context, _ string) (func() error, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestLocks(t *testing.T) {
	b := newBench(t, redistest.Start(t).URL())
	load := workload{name: "locks-two-nodes", clients: 8, rooms: 2, nodes: 2, locks: true}
	for _, c := range (Config{}).plan().of(load) {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "rueidislock" { // which forgets to wake a waiter at times
				redistest.Thorough(t)
			}
			r := mustCell(t, b, load, c)
			if wrong := r.wrong(); len(wrong) > 0 {
				t.Errorf("%q", wrong)
			}
			if r.Commands < 2 || r.Reads <= 0 || r.RedisCPU <= 0 || r.Jain <= 0 || r.Allocs <= 0 {
				t.Errorf("not plausible: %+v", *r)
			}
		})
	}
	if n := b.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// What is no lock is found, and named.
func TestLocks_HeldTwice(t *testing.T) {
	b := newBench(t, redistest.Start(t).URL())
	load := workload{name: "locks-two-nodes", clients: 4, rooms: 1, nodes: 2, locks: true}
	r := mustCell(t, b, load, contender{name: "none", locker: func(target) (locker, error) { return noLock{}, nil }})
	if wrong := r.wrong(); r.Violations.Shared == 0 || len(wrong) != 1 || !strings.Contains(wrong[0], "mutual exclusion was violated") {
		t.Errorf("%+v, %q", r.Violations, r.wrong())
	}
}

// A wake-up that never comes is an error long before the measurement ends.
func TestLocks_LostWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := make([]atomic.Int64, 1)
		holders := []*holder{{locker: deafLock{}, keys: []string{"x"}, owners: owners, id: 1}, {locker: deafLock{}, keys: []string{"x"}, owners: owners, id: 2}}
		got, err := drive(t.Context(), holders, 5*lostWakeUp/2, ticking())
		sum := tally.Sum(got.actors...)
		if n, _ := sum.Errors(); err != nil || n < 4 || got.total() != 0 || !strings.Contains(sum.FirstError().Error(), lostWakeUp.String()) {
			t.Errorf("%v, %d errors, the first %v, %d holds", err, n, sum.FirstError(), got.total())
		}
	})
}

// The embedded Redis cannot do what rueidislock needs, and the report says so.
func TestLocks_Embedded(t *testing.T) {
	b := newBench(t, "embedded")
	load := workload{name: "locks-lone", clients: 1, rooms: 1, nodes: 1, locks: true}
	for _, c := range (Config{Only: []string{lockmgrName, "rueidislock"}}).plan().of(load) {
		r, err := b.cell(t.Context(), load, c)
		if err != nil || (r.Failure == "") != (c.name == lockmgrName) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

// openLocks returns each lock contender with one connection.
func openLocks(b *testing.B) (names []string, opened []locker) {
	server, err := redisserver.Open(b.Context(), redistest.Start(b).URL())
	redistest.OK(b, err)
	b.Cleanup(server.Close)
	for _, c := range contenders {
		if c.locker == nil {
			continue
		}
		l, err := c.locker(target{redis: server, connections: 1})
		redistest.OK(b, err)
		b.Cleanup(l.close)
		names, opened = append(names, c.name), append(opened, l)
	}
	return names, opened
}

// hold takes a lock and gives it back.
func hold(b *testing.B, l locker, key string) {
	release, err := acquire(b.Context(), l, key)
	if err == nil {
		err = release()
	}
	redistest.OK(b, err)
}

// BenchmarkUncontended takes and gives back one lock that nobody else wants.
func BenchmarkUncontended(b *testing.B) {
	names, opened := openLocks(b)
	for i, name := range names {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				hold(b, opened[i], "bench:"+name)
			}
		})
	}
}

// BenchmarkPaired lets the contenders take turns, one hold each, so that whatever else the machine does meets
// all alike. times-as-fast compares the medians of lockmgr and redislock, the fastest of the others. rueidislock
// does not take part: it forgets to wake a waiter at times, and its goroutines slow down whoever follows it.
func BenchmarkPaired(b *testing.B) {
	names, opened := openLocks(b)
	took := make([][]time.Duration, len(names))
	order := slices.DeleteFunc(rand.Perm(len(names)), func(i int) bool { return names[i] == "rueidislock" })
	for b.Loop() {
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			start := time.Now()
			hold(b, opened[i], "bench:"+names[i])
			took[i] = append(took[i], time.Since(start))
		}
	}
	medians := make(map[string]float64)
	for _, i := range order {
		name := names[i]
		slices.Sort(took[i])
		medians[name] = float64(took[i][len(took[i])/2])
		b.ReportMetric(medians[name]/1000, name+"-µs")
	}
	b.ReportMetric(medians["redislock"]/medians[lockmgrName], "times-as-fast")
}
