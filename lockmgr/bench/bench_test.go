package main

import (
	"os"
	"os/exec"
	"testing"
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
				release, err := l.Acquire(b.Context(), "bench:"+who.name)
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
