package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/lab/anomaly"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
)

// The whole lab, and a part on the embedded Redis: every discipline shows its listed anomalies under the listed faults, and
// roomd shows none.
func TestRun_EveryDisciplineIsAsListed(t *testing.T) {
	redistest.Thorough(t)
	for name, only := range map[string][]string{
		"real":     nil,
		"embedded": {"none", "set-nx-del", "set-rand-lua", "timestamp", "timestamp-first", "timestamp-release", "roomd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, cells := redistest.Start(t), 0
			cfg := Config{Redis: server.URL(), Duration: 200 * time.Millisecond, Second: LeastSecond, Only: only}
			if name == redisurl.Embedded {
				cfg.Redis = redisurl.Embedded
			}
			cfg.Progress = func(*Report, *Cell) { cells++ }
			r, err := Run(t.Context(), cfg)
			redistest.OK(t, err)
			if !r.AsListed() {
				t.Errorf("the verdict is %q:\n%s", r.Verdict, strings.Join(r.Differences, "\n"))
			}
			for _, c := range r.differ {
				t.Log(strings.Join(c.Events(), "\n"))
			}
			for _, row := range r.Disciplines {
				if (row.Name == roomd.name) != (len(row.Listed) == 0) {
					t.Errorf("%s has %d anomalies listed", row.Name, len(row.Listed))
				}
				for _, c := range row.Cells {
					if c.Done {
						cells--
					}
					checkCell(t, c)
				}
			}
			redistest.Equal(t, "cells that progress has reported too many:", cells, 0)
			checkCache(t, r, cfg)
			redistest.Equal(t, "keys left behind:", len(server.Client().Keys(t.Context(), "*").Val()), 0)
		})
	}
}

// checkCell checks that the fault of a cell has happened, and that roomd did something and showed no anomaly.
func checkCell(t *testing.T, c *Cell) {
	t.Helper()
	strike, _, _ := strings.Cut(c.Fault, "-")
	kind := map[string]anomaly.Kind{
		"pause": anomaly.Paused, "same": anomaly.Paused, "late": anomaly.Paused, "fail": anomaly.Paused, "just": anomaly.Paused,
		"crash": anomaly.Crashed, "take": anomaly.Crashed, "lost": anomaly.ReplyLost,
	}[strike]
	happened := slices.ContainsFunc(c.history.Events, func(e anomaly.Event) bool { return e.Kind == kind && e.Caller == victimUser })
	if c.Applies != c.Done || c.Done && kind != "" && !happened {
		t.Errorf("%s under %s: applies %t, done %t, happened %t", c.Discipline, c.Fault, c.Applies, c.Done, happened)
	}
	done := slices.ContainsFunc(c.history.Events, func(e anomaly.Event) bool { return e.Kind == anomaly.ToldOK })
	if c.Discipline == roomd.name && c.Done && (c.Anomalies.Total() != 0 || !done) {
		t.Errorf("roomd under %s: did something %t, %v", c.Fault, done, c.findings)
	}
}

// checkCache checks the guards that differ most. Their counts depend on timing, so on a busy machine it tries again.
func checkCache(t *testing.T, r *Report, cfg Config) {
	t.Helper()
	if len(r.Cache) < 2 || r.Cache[0].Guard != unguarded.name {
		t.Errorf("guards: %+v", r.Cache)
	}
	cfg.Faults, cfg.Progress = []string{cacheGuard}, nil
	for attempts := 3; ; attempts-- {
		wrong := slices.DeleteFunc(r.Cache, cacheIsRight)
		if len(wrong) == 0 || attempts == 1 {
			for _, c := range wrong {
				t.Errorf("%+v", c)
			}
			return
		}
		cfg.Only = []string{"none"} // what has no lock is always there
		for _, c := range wrong {
			if c.Guard != unguarded.name {
				cfg.Only = append(cfg.Only, c.Guard)
			}
		}
		var err error
		r, err = Run(t.Context(), cfg)
		redistest.OK(t, err)
	}
}

// slowLoads is the effect of three callers on each other when a load outlasts the TTL: loads, at once, freed, errors.
var slowLoads = map[string][4]int{
	"no-guard":        {3, 3, 0, 0},
	"setnx":           {1, 1, 0, 0}, // does not expire
	"multi-expire":    {1, 1, 0, 0}, // the second has prolonged it
	"set-nx-del":      {2, 2, 1, 0}, // the first frees the third's
	"get-compare-del": {2, 2, 0, 0},
	"timestamp":       {2, 2, 1, 1}, // the second finds it gone, and no value
	"set-nx-lua":      {3, 2, 0, 0}, // the second takes it, then the third
	"timestamp-plain": {1, 1, 0, 0}, // does not expire; now its time is past
}

func cacheIsRight(c CacheResult) bool {
	ok := true
	switch c.Guard {
	case "no-guard":
		ok = c.Gone.Loads == cacheCallers && c.Old.Loads == cacheCallers
	case "set-nx-del": // the others wait, or use the old value
		ok = c.Gone.Loads <= cacheCallers/2 && c.Gone.Errors == 0 && c.Gone.Stale == 0 && c.Old.Stale > 0
	case "timestamp": // those who wait read what the holder has left
		ok = c.Gone.Loads <= cacheCallers/2 && c.Gone.Errors == 0
	case "timestamp-first": // everybody gets it in turn
		ok = c.Gone.Loads > 1 && c.Gone.Errors == 0
	}
	never := slices.Contains([]string{"setnx", "multi-expire", "hsetnx", "timestamp-plain"}, c.Guard)
	empty := map[string]int{"no-guard": 3, "timestamp": 1, "timestamp-first": 1, "set-get": 1}[c.Guard]
	slow, known := slowLoads[c.Guard]
	got := [4]int{c.Slow.Loads, c.Slow.AtOnce, c.Slow.Freed, c.Slow.Errors}
	return ok && c.Dead.Never == never && c.Empty.Loads == empty && (!known || got == slow)
}

// A discipline reaches exactly the steps that it declares, so that it meets every fault
// that applies to it, and no other.
func TestDiscipline_StepsAreDeclared(t *testing.T) {
	rdb := redistest.Start(t).Client()
	var all errgroup.Group
	all.SetLimit(3) // with more, a busy machine stops a holder past its time
	for _, d := range disciplines {
		all.Go(func() error {
			l := &lab{redis: rdb, run: "steps"}
			x := newCell(l, d, faults[0], LeastSecond)
			if _, err := x.play(t.Context(), x.playFault); err != nil {
				return err
			}
			for _, s := range []step{stepDrawn, stepSet, stepLocked, stepRead, stepWrote, stepGiving, stepGave, stepLooking, stepChecked} {
				if x.reached[s] != slices.Contains(d.steps, s) {
					t.Errorf("%s: step %q is reached: %t", d.name, s, x.reached[s])
				}
			}
			return nil
		})
	}
	redistest.OK(t, all.Wait())
}

func TestConfig_Bad(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"only is":     func(c *Config) { c.Only = []string{"setnx", "nonsense"} },
		"faults is":   func(c *Config) { c.Faults = []string{"nonsense"} },
		"duration is": func(c *Config) { c.Duration = 0 },
		"second is":   func(c *Config) { c.Second = time.Minute },
		"redis":       func(c *Config) { c.Redis = "nonsense" },
	} {
		c := Config{Duration: time.Second, Second: LeastSecond}
		change(&c)
		if _, err := Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), "--"+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
