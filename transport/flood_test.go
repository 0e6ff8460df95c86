package transport

import (
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
)

// floods are frames that ask for nothing: what a connection sends once, and what it repeats.
var floods = map[string]struct{ once, repeated string }{
	"nothing":            {},
	"empty fragments":    {first(""), strings.Repeat(more(""), 10_000)},
	"one-byte fragments": {"", strings.Repeat(first("{")+strings.Repeat(more(" "), 100)+last("}"), 100)},
	"pings":              {"", strings.Repeat(ping(""), 10_000)},
	"pongs":              {"", strings.Repeat(pong(""), 10_000)},
}

// floodVariable holds, for the process that floods, its frames' name in floods and the server's address.
const floodVariable = "ROOMD_TEST_FLOOD"

// TestFlood_Process is no test, but the process of twenty clients that send frames without a pause,
// and connect again when the server cuts them off. It runs until its standard input ends.
func TestFlood_Process(t *testing.T) {
	name, addr, ok := strings.Cut(os.Getenv(floodVariable), "@")
	if !ok {
		t.Skip("not started by BenchmarkBesideAFlood")
	}
	for range 20 {
		go func() {
			for {
				flood(addr, name)
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// flood sends frames until the server closes.
func flood(addr, name string) {
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = raw.Close() }()
	answer := make([]byte, 1024)
	_, err = io.WriteString(raw, handshake)
	if _, readErr := raw.Read(answer); err != nil || readErr != nil {
		return
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() { _, _ = io.Copy(io.Discard, raw); _ = raw.Close() })
	_, err = io.WriteString(raw, floods[name].once)
	for err == nil {
		_, err = io.WriteString(raw, floods[name].repeated)
	}
}

// BenchmarkBesideAFlood measures the requests of an ordinary client beside a flood.
func BenchmarkBesideAFlood(b *testing.B) {
	for name, frames := range floods {
		b.Run(name, func(b *testing.B) {
			s := serve(b, newBenchRooms(), Options{Rate: -1})
			if frames.repeated != "" {
				startFlood(b, name+"@"+s.addr)
			}
			c := s.benchClient(b, "player-3")
			request := masked(users42)
			reply := c.length(request)
			var took []time.Duration
			for b.Loop() {
				time.Sleep(5 * time.Millisecond) // as a player who does not play all the time
				start := time.Now()
				c.ask(request, reply)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

func startFlood(b *testing.B, flood string) {
	process := exec.Command(os.Args[0], "-test.run=^TestFlood_Process$")
	process.Env = append(os.Environ(), floodVariable+"="+flood)
	input, err := process.StdinPipe()
	if err == nil {
		err = process.Start()
	}
	redistest.OK(b, err)
	b.Cleanup(func() {
		_ = input.Close()
		_ = process.Wait()
	})
	time.Sleep(500 * time.Millisecond) // until the flood is at its height
}
