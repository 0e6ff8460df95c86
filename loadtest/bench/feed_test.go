package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"roomd/loadtest/internal/tally"
	"roomd/lockmgr/redistest"
)

func TestFeed(t *testing.T) {
	redistest.Thorough(t)
	redistest.Need(t, "redis-server")
	b := newBench(t, redistest.Start(t).URL())
	b.rounds = 1
	f, err := b.measureFeed(t.Context())
	redistest.OK(t, err)
	if f.Failure != "" || len(f.Turns) != 3 || len(f.Delay) != 3 {
		t.Fatalf("%+v", f)
	}
	for name, d := range f.Delay {
		if !d.P50.IsKnown() || d.P50 <= 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for name, c := range f.Turns {
		if c.ActionsPerSec <= 0 || c.RedisCPU <= 0 || c.OwnRatio <= 0 {
			t.Errorf("%s: %+v", name, *c)
		}
	}
	var table bytes.Buffer
	if err := f.figures().writeText(&table); err != nil || !strings.Contains(table.String(), "webhook") || !strings.Contains(table.String(), "nobody reads") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// A reader that misses a commit, or does not hear the last one, spoils the run; one that comes again does not.
func TestFeed_Missing(t *testing.T) {
	for what, tt := range map[string]struct {
		versions      []uint64
		behind, wrong bool
	}{
		"all": {[]uint64{1, 2, 3}, false, false}, "again": {[]uint64{1, 2, 1, 2, 3}, false, false}, "one is missing": {[]uint64{1, 3}, true, true}, "the last one": {[]uint64{1, 2}, true, false},
	} {
		h := &feedHall{players: []*feedPlayer{{room: "r", version: 3}}, heard: map[string]map[string]uint64{"pages": {}}, delays: map[string]*tally.Tally{"pages": {}}}
		h.counts.Store(true)
		for _, v := range tt.versions {
			h.hear("pages", []benchEntry{{Room: "r", Time: time.Now(), Version: v}})
		}
		if behind, wrong := h.behind(); (behind != "") != tt.behind || (wrong != nil) != tt.wrong {
			t.Errorf("%s: %q, %v", what, behind, wrong)
		}
	}
	f := &Feed{Failure: "x"}
	if err := (&Report{Feed: f}).Err(); err == nil || !strings.Contains(err.Error(), "feed: x") {
		t.Error(err)
	}
}
