package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestJain(t *testing.T) {
	for _, test := range []struct {
		holds []int64
		want  float64
	}{
		{nil, 0},
		{[]int64{0, 0}, 0},
		{[]int64{7}, 1},
		{[]int64{5, 5, 5, 5}, 1},
		{[]int64{9, 0, 0, 0}, 0.25},
		{[]int64{1, 3}, 0.8},
	} {
		if got := jain(test.holds); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("jain(%v) = %v, want %v", test.holds, got, test.want)
		}
	}
}

func TestTallySurvivesJSON(t *testing.T) {
	one := newTally()
	one.Holds = []int64{2}
	one.waited(2 * time.Millisecond)
	one.waited(2 * longest)
	one.cutOff(3 * time.Second)
	text, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	read := newTally()
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	sum := newTally()
	sum.add(one)
	sum.add(read)
	if sum.total() != 4 || sum.CutOff != 2 || sum.LongestCut != 3*time.Second {
		t.Errorf("counted %+v", sum)
	}
	if n, p50 := sum.Waits.TotalCount(), sum.Waits.millis(50); n != 4 || math.Abs(p50-2) > 0.01 {
		t.Errorf("%d waits with a median of %v ms, want 4 and 2", n, p50)
	}
}

func TestParse(t *testing.T) {
	cfg, err := parse([]string{"--only", "redsync,lockmgr", "--workload", "1000-keys", "--duration", "1s"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if names(cfg.contenders) != "redsync, lockmgr" || names(cfg.workloads) != "1000-keys" || cfg.duration != time.Second {
		t.Errorf("parsed %+v", cfg)
	}
	for _, args := range []string{"--only nobody", "--workload none", "--duration 0s", "more"} {
		if _, err := parse(strings.Fields(args), &bytes.Buffer{}); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// free is no lock at all.
type free struct{}

func (free) Acquire(context.Context, string) (func(), error) { return func() {}, nil }
func (free) Close()                                          {}

func TestMarksFindTwoHolders(t *testing.T) {
	s := startRedis(t)
	var f faults
	c := &crew{locks: free{}, names: []string{"x"}, owners: make([]atomic.Int64, 1), marks: s.client, faults: &f}
	if got := c.work(4, 200*time.Millisecond); got.Violations == 0 {
		t.Errorf("no violation in %d holds of what is no lock", got.total())
	}
	// Another process knows nothing of this one's owners.
	if err := s.client.Set(t.Context(), "x:mark", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	c.owners = make([]atomic.Int64, 1)
	if c.alone(0, 1) {
		t.Error("the mark of another process was not seen")
	}
	if n, first := f.read(); n > 0 {
		t.Errorf("%d errors, the first: %s", n, first)
	}
}

// deaf is a lock whose waiters never hear that it is theirs.
type deaf struct{ free }

func (deaf) Acquire(ctx context.Context, _ string) (func(), error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A wake-up that never comes is a fault long before the measurement ends.
func TestAnAcquireThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f faults
		c := &crew{locks: deaf{}, names: []string{"x"}, owners: make([]atomic.Int64, 1), faults: &f}
		began := time.Now()
		got := c.work(2, 5*patience/2)
		n, first := f.read()
		if n != 4 || !strings.Contains(first, patience.String()) || got.CutOff != 2 || got.Hung != 0 {
			t.Errorf("%d faults, the first %q; %+v", n, first, got)
		}
		if took := time.Since(began); took > 3*patience {
			t.Errorf("it took %v", took)
		}
	})
}

func TestRun(t *testing.T) {
	s := startRedis(t)
	file := filepath.Join(t.TempDir(), "report.json")
	cfg := config{redis: s.url, duration: 100 * time.Millisecond, contenders: contenders, workloads: workloads[:1], json: file}
	cfg.workloads = append(cfg.workloads, workload{"two-processes", "", 2, 4, 2})
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), cfg, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s%s", err, &stdout, &stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Results) != len(cfg.workloads)*len(contenders) {
		t.Fatalf("%d results", len(got.Results))
	}
	for _, r := range got.Results {
		if r.Holds == 0 || r.CommandsPerHold < 2 || r.RedisMicros <= 0 || r.Jain <= 0 {
			t.Errorf("not plausible: %+v", r)
		}
	}
}
