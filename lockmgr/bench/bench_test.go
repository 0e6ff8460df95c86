package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// TestMain makes the test binary a process of a measurement if it was started as
// one.
func TestMain(m *testing.M) {
	if isProcess(os.Args) {
		main()
		return
	}
	os.Exit(m.Run())
}

// startRedis returns a server that ends with the test.
func startRedis(tb testing.TB) *server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		tb.Skip("redis-server is not installed")
	}
	s, err := openServer(tb.Context(), "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.close)
	return s
}

// BenchmarkUncontended acquires and releases one lock that nobody else wants.
func BenchmarkUncontended(b *testing.B) {
	s := startRedis(b)
	for _, who := range contenders {
		b.Run(who.name, func(b *testing.B) {
			var f faults
			l, err := who.open(target{s.url, 1}, &f)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ReportAllocs()
			for b.Loop() {
				release, err := acquire(b.Context(), l, "bench:"+who.name)
				if err != nil {
					b.Fatal(err)
				}
				release()
			}
			if n, first := f.read(); n > 0 {
				b.Errorf("%d errors, the first: %s", n, first)
			}
		})
	}
}

// BenchmarkPaired lets the contenders take turns, one hold each, so that whatever else
// the machine does meets all alike. The medians of lockmgr and redislock, the fastest
// of the others, are compared.
func BenchmarkPaired(b *testing.B) {
	s := startRedis(b)
	names := []string{"lockmgr", "redislock", "redsync", "rueidislock"}
	var f faults
	opened := make([]locks, len(names))
	for i, name := range names {
		chosen, err := choose(contenders, name)
		if err != nil {
			b.Fatal(err)
		}
		if opened[i], err = chosen[0].open(target{s.url, 1}, &f); err != nil {
			b.Fatal(err)
		}
		defer opened[i].Close()
	}
	took := make([][]time.Duration, len(names))
	order := rand.Perm(len(names))
	for b.Loop() {
		// In another order each time: whoever follows rueidis' goroutines waits longer.
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			start := time.Now()
			release, err := acquire(b.Context(), opened[i], "bench:"+names[i])
			if err != nil {
				b.Fatalf("%s: %v", names[i], err)
			}
			release()
			took[i] = append(took[i], time.Since(start))
		}
	}
	medians := make([]float64, len(names))
	for i, name := range names {
		slices.Sort(took[i])
		medians[i] = float64(took[i][len(took[i])/2])
		b.ReportMetric(medians[i]/1000, name+"-µs")
	}
	b.ReportMetric(medians[1]/medians[0], "times-as-fast")
}
