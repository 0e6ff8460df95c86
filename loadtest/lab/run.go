package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/redisserver"
)

// How many cells run at a time. They mostly wait, except for heavy load, which runs
// alone. The embedded Redis is slow with scripts.
const (
	cellsAtOnceReal     = 9
	cellsAtOnceEmbedded = 2
)

// connections is the size of the driver's own pool.
const connections = 32

// lab is one run.
type lab struct {
	cfg      Config
	redis    *redis.Client
	embedded bool
	run      string // names the rooms of this run
	seed     uint64
	cells    atomic.Int64 // started so far

	mu     sync.Mutex
	report *Report // guarded by mu
}

// Run plays every discipline under every fault, and the cache guard, and returns what
// went wrong with each. An error says that the lab could not run; see Config.Validate.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	server, err := redisserver.Open(ctx, cfg.Redis)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	l := &lab{cfg: cfg, redis: server.NewClient(connections), embedded: server.DB().IsEmbedded(), seed: cfg.Seed}
	defer l.redis.Close()
	for l.seed == 0 {
		l.seed = rand.Uint64()
	}
	l.run = fmt.Sprintf("%08x", rand.Uint32())
	l.report = newReport(cfg, l.seed, server.String())
	// A key that stays does no harm; the report is worth more than an error about it.
	defer func() { _ = server.Remove(ctx, "lab-"+l.run+"-") }()
	if err := l.playMatrix(ctx); err != nil {
		return nil, err
	}
	if slices.Contains(cfg.Faults, cacheGuard) {
		if l.report.Cache, err = l.playCache(ctx); err != nil {
			return nil, err
		}
	}
	l.report.judge()
	return l.report, nil
}

// playMatrix plays the cells side by side, and then those of heavy load one after the
// other.
func (l *lab) playMatrix(ctx context.Context) error {
	for _, alone := range []bool{false, true} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(l.cellsAtOnce())
		if alone {
			group.SetLimit(1)
		}
		for _, row := range l.report.Disciplines {
			for _, cell := range row.Cells {
				if cell.Applies && (cell.Fault == heavyLoad) == alone {
					group.Go(func() error { return l.playCell(ctx, row, cell) })
				}
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) cellsAtOnce() int {
	if l.embedded {
		return cellsAtOnceEmbedded
	}
	return cellsAtOnceReal
}

func (l *lab) playCell(ctx context.Context, row *Row, cell *Cell) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	x, history, err := l.playUntilStruck(ctx, row.discipline, cell.fault)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s under %s: %w", row.Name, cell.Fault, err)
	}
	found := anomaly.Find(history)
	l.mu.Lock()
	defer l.mu.Unlock()
	cell.fill(x, history, found)
	if l.cfg.Progress != nil {
		l.cfg.Progress(l.report, cell)
	}
	return nil
}

// attempts is how often a cell is played at most. On a busy machine something else may
// go wrong before the fault can happen, or before it can show what is listed.
const attempts = 6

// playUntilStruck plays a cell until its fault has happened and has shown what is
// listed; or, if it is roomd's, until anything went wrong.
func (l *lab) playUntilStruck(ctx context.Context, d *discipline, f *fault) (*cell, anomaly.History, error) {
	second := l.cfg.Second
	if f.name == heavyLoad {
		second = time.Second
	}
	var struck bool
	var x *cell
	var history anomaly.History
	for range attempts {
		var err error
		x = newCell(l, d, f, second)
		history, err = x.play(ctx)
		if err != nil {
			return nil, history, err
		}
		found := anomaly.Find(history)
		struck = len(f.needs) == 0 || x.wasStruck()
		if struck && d.shows(f.name, found.Counts(), history.TTL) || d == &roomd && len(found.All) > 0 {
			return x, history, nil
		}
	}
	if !struck {
		return nil, history, errors.New("the fault did not happen")
	}
	return x, history, nil
}
