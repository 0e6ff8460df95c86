package bench

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"roomd/loadtest/bench/worker"
	"roomd/lockmgr/redistest"
)

func TestStorm(t *testing.T) {
	t.Parallel() // it mostly waits
	b := newBench(t, redistest.Start(t).URL())
	b.connections, b.patience = 50, time.Minute
	s, err := b.measureStorm(t.Context())
	redistest.OK(t, err)
	if wrong := s.wrong(); len(wrong) > 0 {
		t.Error(wrong)
	}
	if s.In != 50 || s.Left != 50 || len(s.Refused) > 0 || !s.Latency.P99.IsKnown() || s.Processes < 2 || s.Connected.Goroutines < s.Before.Goroutines+40 {
		t.Errorf("%+v", *s)
	}
	if n := b.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	var table bytes.Buffer
	if err := s.figures().writeText(&table); err != nil || !strings.Contains(table.String(), "in after  50 clients") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// storm returns the storm of 50 clients on a server of that kind.
func storm(t *testing.T, kind string) *Storm {
	t.Helper()
	b := newBench(t, redistest.Start(t).URL())
	b.patience = time.Second // there is nothing to wait for
	s := &Storm{Connections: 50, Refused: make(map[string]int64), Failed: make(map[string]int64), Back: mib(0)}
	redistest.OK(t, b.tryStorm(t.Context(), kind, "x", s))
	return s
}

// Each of these must be found, and nothing else with it.
func TestStorm_ServerWithAFault(t *testing.T) {
	for kind, want := range map[string]string{
		full:     "",
		dropping: "without an answer: ",
		leaking:  "long after all have left",
		staring:  "long after all have left",
	} {
		t.Run(kind, func(t *testing.T) {
			if kind == leaking || kind == full {
				redistest.Thorough(t)
			}
			t.Parallel()
			s := storm(t, kind)
			wrong := s.wrong()
			if want == "" && len(wrong) > 0 || want != "" && (len(wrong) != 1 || !strings.HasPrefix(wrong[0], want)) {
				t.Errorf("%q, want %q", wrong, want)
			}
			refused := 0
			if kind == full {
				refused = 25
			}
			if s.Refused["HTTP 503 unavailable"] != int64(refused) {
				t.Errorf("refused: %v", s.Refused)
			}
			if kind != dropping && s.In != 50-refused {
				t.Errorf("%d are in", s.In)
			}
		})
	}
}

func TestStorm_Fails(t *testing.T) {
	for want, s := range map[string]*Storm{
		"nobody got in": {Back: 1},
		"no server":     {Failure: "no server"},
	} {
		r := &Report{Storm: s}
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), "storm: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err := r.WriteHTML(io.Discard); err != nil {
			t.Error(err)
		}
	}
}

func TestIsBack(t *testing.T) {
	before := worker.Memory{Resident: 100 << 20, Goroutines: 10}
	for _, test := range []struct {
		now  worker.Memory
		want bool
	}{
		{worker.Memory{Resident: 130 << 20, Goroutines: 10 + stormGoroutines}, true},
		{worker.Memory{Resident: 140 << 20, Goroutines: 10}, false},
		{worker.Memory{Resident: 100 << 20, Goroutines: 11 + stormGoroutines}, false},
		{worker.Memory{Resident: 100 << 20, Goroutines: 10, Connections: 1}, false},
	} {
		if isBack(before, test.now) != test.want {
			t.Errorf("%+v", test.now)
		}
	}
	if isBack(worker.Memory{Heap: 1 << 20}, worker.Memory{Heap: 100 << 20}) {
		t.Error("where only the heap is known, it does not count")
	}
}
