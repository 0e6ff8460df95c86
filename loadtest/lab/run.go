package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"roomd/loadtest/internal/scratch"
	"roomd/loadtest/lab/anomaly"
)

// Config says what to run. The zero value runs everything.
type Config struct {
	// Redis is a URL in the syntax of package redisurl. Empty starts a redis-server for the run, or the embedded Redis where
	// none is installed.
	Redis string

	// Only and Faults name the disciplines and the faults to run. Empty means all. The fault "cache" is callers at an expired
	// cache entry.
	Only, Faults []string

	// Duration is how long the callers of each discipline act under heavy load. Zero means 1 s.
	Duration time.Duration

	// Second is how long a published second lasts under the other faults. At one second nothing is scaled. Zero means 100 ms,
	// which is the least: it keeps the shortest TTL, 1 s, well above the delays of a scheduler and of the observer.
	Second time.Duration

	// Progress, if not nil, is called after each cell of the matrix, one call at a time, with the report so far. It must not
	// keep the report.
	Progress func(r *Report, done *Cell)
}

const (
	defaultSecond   = 100 * time.Millisecond
	defaultDuration = time.Second
)

// cacheGuard names the fault that is no column of the matrix.
const cacheGuard = "cache"

// names returns the names of all disciplines, and of all faults, in their order.
func names() (ofDisciplines, ofFaults []string) {
	for _, d := range disciplines {
		ofDisciplines = append(ofDisciplines, d.name)
	}
	for _, f := range faults {
		ofFaults = append(ofFaults, f.name)
	}
	return ofDisciplines, append(ofFaults, cacheGuard)
}

// Describe returns what the disciplines and the faults are, a line for each.
func Describe() string {
	var b strings.Builder
	line := func(name, about string) { fmt.Fprintf(&b, "  %-*s%s\n", nameWidth, name, about) }
	b.WriteString("Disciplines:\n")
	for _, d := range disciplines {
		line(d.name, d.describe())
	}
	b.WriteString("\nFaults:\n")
	for _, f := range faults {
		line(f.name, f.about)
	}
	line(cacheGuard, "callers at an expired cache entry, behind every lock")
	return b.String()
}

func (c Config) withDefaults() Config {
	only, faults := names()
	if len(c.Only) == 0 {
		c.Only = only
	}
	if len(c.Faults) == 0 {
		c.Faults = faults
	}
	if c.Duration == 0 {
		c.Duration = defaultDuration
	}
	if c.Second == 0 {
		c.Second = defaultSecond
	}
	return c
}

// Validate returns an error if a value cannot be used. The error begins with the name of the field, in small letters, and its
// value.
func (c Config) Validate() error {
	only, faults := names()
	for _, list := range []struct {
		field       string
		names, have []string
	}{{"only", c.Only, only}, {"faults", c.Faults, faults}} {
		for _, name := range list.names {
			if !slices.Contains(list.have, name) {
				return fmt.Errorf("%s is %q, it must be one of %s", list.field, name, strings.Join(list.have, ", "))
			}
		}
	}
	switch {
	case c.Duration < 0:
		return fmt.Errorf("duration is %v, it must be more than zero", c.Duration)
	case c.Second != 0 && (c.Second < defaultSecond || c.Second > time.Second):
		return fmt.Errorf("second is %v, it must be from %v to 1s", c.Second, defaultSecond)
	}
	return scratch.Validate(c.Redis)
}

// lab is one run.
type lab struct {
	cfg      Config
	redis    *redis.Client
	embedded bool
	run      string       // names the rooms of this run
	cells    atomic.Int64 // started so far

	mu     sync.Mutex
	report *Report // guarded by mu
}

// Run plays every discipline under every fault, and the cache guard, and returns what went wrong with each. An error says that
// the lab could not run; see Config.Validate.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	server, err := scratch.Open(ctx, cfg.Redis)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	const connections = 32 // of the driver's own
	l := &lab{cfg: cfg, redis: server.NewClient(connections), embedded: server.IsEmbedded()}
	defer l.redis.Close()
	l.run = fmt.Sprintf("%08x", rand.Uint32())
	l.report = newReport(cfg, server.String())
	// A key that stays does no harm; the report is worth more than an error about it.
	defer func() { _ = server.Remove(ctx, "lab-"+l.run+"-") }()
	for _, alone := range []bool{false, true} { // heavy load runs alone
		if err := l.playMatrix(ctx, alone); err != nil {
			return nil, err
		}
	}
	if slices.Contains(cfg.Faults, cacheGuard) {
		if l.report.Cache, err = l.playCache(ctx); err != nil {
			return nil, err
		}
	}
	l.report.judge()
	return l.report, nil
}

// cellsAtOnce returns how many cells run at a time. They mostly wait. The embedded Redis is slow with scripts.
func (l *lab) cellsAtOnce() int {
	if l.embedded {
		return 2
	}
	return 9
}

// playMatrix plays the cells side by side, or those of heavy load one after the other.
func (l *lab) playMatrix(ctx context.Context, alone bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.cellsAtOnce())
	if alone {
		group.SetLimit(1)
	}
	for _, row := range l.report.Disciplines {
		for _, cell := range row.Cells {
			if cell.Applies && (cell.Fault == heavyLoad) == alone {
				group.Go(func() error {
					x, h, err := l.playUntilStruck(ctx, row.discipline, cell.fault)
					if err = cmp.Or(err, context.Cause(ctx)); err != nil {
						return fmt.Errorf("%s under %s: %w", row.Name, cell.Fault, err)
					}
					l.mu.Lock()
					defer l.mu.Unlock()
					cell.fill(x.second, h)
					if l.cfg.Progress != nil {
						l.cfg.Progress(l.report, cell)
					}
					return nil
				})
			}
		}
	}
	return group.Wait()
}

// attempts is how often a cell is played at most. On a busy machine something else may go wrong before the fault can happen, or
// before it can show what is listed.
const attempts = 6

// playUntilStruck plays a cell until its fault has happened and has shown what is listed; or, if it is roomd's, until anything
// went wrong.
func (l *lab) playUntilStruck(ctx context.Context, d *discipline, f *fault) (x *cell, h anomaly.History, err error) {
	second := l.cfg.Second
	if f.name == heavyLoad {
		second = time.Second
	}
	struck := false
	for range attempts {
		x = newCell(l, d, f, second)
		if h, err = x.play(ctx, x.playFault); err != nil {
			return nil, h, err
		}
		found := anomaly.Find(h)
		struck = len(f.needs) == 0 || x.struck
		if struck && d.shows(f.name, found.Counts(), h.TTL) || d == &roomd && len(found.All) > 0 {
			return x, h, nil
		}
	}
	if !struck {
		return nil, h, errors.New("the fault did not happen")
	}
	return x, h, nil
}
