package lab

import (
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

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/redisserver"
)

// How many cells run at a time. Mostly they wait, but for contention, which runs
// alone. The embedded Redis takes its time for scripts.
const (
	cellsAtOnceReal     = 6
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
	cells    atomic.Int64 // so far

	mu     sync.Mutex // guards the report
	report *Report
}

// Run plays every discipline under every fault, and the cache guard, and returns
// what went wrong with each. An error says that it could not be done.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
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
	if !server.Own() {
		defer l.sweep(context.WithoutCancel(ctx))
	}
	if err := l.playMatrix(ctx); err != nil {
		return nil, err
	}
	if slices.Contains(cfg.Faults, CacheGuard) {
		if l.report.Cache, err = l.playCache(ctx); err != nil {
			return nil, err
		}
	}
	l.report.judge()
	return l.report, nil
}

// playMatrix plays the cells that wait side by side, and then contention, one
// discipline after the other.
func (l *lab) playMatrix(ctx context.Context) error {
	for _, alone := range []bool{false, true} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(l.cellsAtOnce())
		if alone {
			group.SetLimit(1)
		}
		for _, row := range l.report.Disciplines {
			for _, cell := range row.Cells {
				if cell.Applies && (cell.Fault == contention) == alone {
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

// attempts is how often a cell is played if its fault does not happen, or does not
// come to what is listed for it, because on a busy machine something else went wrong
// before it could.
const attempts = 6

// playUntilStruck plays a cell until its fault has happened, and has shown what it
// has to; or, if it is roomd's, anything has that must not.
func (l *lab) playUntilStruck(ctx context.Context, d *discipline, f *fault) (*cell, anomaly.History, error) {
	second := l.cfg.Second
	if f.name == contention {
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
		if struck && d.shows(f.name, found.Counts()) || d == &roomd && len(found.All) > 0 {
			return x, history, nil
		}
	}
	if !struck {
		return nil, history, errors.New("the fault did not happen")
	}
	return x, history, nil
}

// sweep removes the run's keys from a Redis that is somebody else's.
func (l *lab) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found := l.redis.Scan(ctx, 0, "*lab-"+l.run+"-*", 1000).Iterator()
	var keys []string
	for found.Next(ctx) {
		keys = append(keys, found.Val())
	}
	for batch := range slices.Chunk(keys, 100) {
		_ = l.redis.Unlink(ctx, batch...).Err()
	}
	for _, node := range l.redis.ZRange(ctx, "Nodes", 0, -1).Val() { // roomd's
		if strings.Contains(node, "lab-"+l.run+"-") {
			_ = l.redis.ZRem(ctx, "Nodes", node).Err()
		}
	}
}
