package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
)

// slowPipe returns both ends of a connection, of which the first has a delay.
func slowPipe(t *testing.T, delay time.Duration) (late, far net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	late, err := slow(func(context.Context, string, string) (net.Conn, error) { return near, nil }, delay)(t.Context(), "", "")
	redistest.OK(t, err)
	t.Cleanup(func() { late.Close(); far.Close() })
	return late, far
}

// Each message is late by both ways, also those that come while another is on its way.
func TestNetwork_Delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, far := slowPipe(t, 5*time.Millisecond)
		start := time.Now()
		go func() {
			for range 5 {
				time.Sleep(3 * time.Millisecond)
				_, _ = far.Write([]byte("message"))
			}
			time.Sleep(time.Minute)
			far.Close()
		}()
		var p [7]byte
		for i := 1; i <= 5; i++ {
			_, err := io.ReadFull(late, p[:])
			want := time.Duration(3*i+10) * time.Millisecond
			if took := time.Since(start); err != nil || string(p[:]) != "message" || took != want {
				t.Errorf("message %d: %q, %v after %v, want %v", i, p, err, took, want)
			}
		}
		if _, err := late.Read(p[:]); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	})
}

// A reader's deadline holds also while bytes are on their way, and they are there after it.
func TestNetwork_Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, far := slowPipe(t, 5*time.Millisecond)
		start := time.Now()
		go func() { _, _ = far.Write([]byte("hello")) }()
		_ = late.SetReadDeadline(start.Add(4 * time.Millisecond))
		p := make([]byte, 3)
		if n, err := late.Read(p); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 4*time.Millisecond {
			t.Errorf("%d bytes, %v after %v", n, err, time.Since(start))
		}
		_ = late.SetReadDeadline(time.Time{})
		for _, want := range []string{"hel", "lo"} {
			if n, err := late.Read(p); string(p[:n]) != want || err != nil || time.Since(start) != 10*time.Millisecond {
				t.Errorf("%q, %v after %v", p[:n], err, time.Since(start))
			}
		}
	})
}

// What is due counts, also if the reader comes to look after its deadline.
func TestNetwork_LateReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, far := slowPipe(t, 5*time.Millisecond)
		go func() { _, _ = far.Write([]byte("hello")) }()
		_ = late.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // when it is due
		p := make([]byte, 5)
		if n, err := late.Read(p); string(p[:n]) != "hello" || err != nil {
			t.Errorf("%q, %v", p[:n], err)
		}
	})
}

// All contenders for rooms work over the network, and wait for it.
func TestNetwork_Contenders(t *testing.T) {
	b := newBench(t, redistest.Start(t).URL())
	slow := workload{name: "slow", clients: 6, rooms: 3, nodes: 2, delay: 5 * time.Millisecond}
	for _, c := range (Config{}).plan().of(slow) {
		r := mustCell(t, b, slow, c)
		if wrong := r.wrong(); len(wrong) > 0 || r.Latency.P50 < 10 {
			t.Errorf("%s: %v, p50 %v ms", c.name, wrong, r.Latency.P50)
		}
	}
}

func TestNetwork_Named(t *testing.T) {
	names := func(workloads ...string) (list []string) {
		for _, w := range (Config{Workloads: workloads}).plan().workloads {
			if w.delay > 0 {
				list = append(list, w.name)
			}
		}
		return list
	}
	if all := names(networkName); len(names()) > 0 || len(all) < 3 || !slices.Equal(names(all[1]), all[1:2]) {
		t.Errorf("without a name %q, network %q, one %q", names(), all, names(all[1]))
	}
}
