// Package lab runs the published ways to use a Redis lock, and roomd, under faults that happen in practice, and
// counts their anomalies. Start with [Run]: its [Report] can be written as a table, as JSON, or as a page.
//
// # Disciplines
//
// Each discipline is a row of the table in disciplines.go. It follows the published steps exactly: the same commands
// in the same order, with the same values, times and pauses, and random values drawn where the article draws them.
// testdata/published.txt has the commands that a Redis server received from the articles' own code; a test compares
// them with the disciplines. Where the published code does not do what it means, there are several rows: as printed,
// as meant, and as it runs with one client or the other. The last discipline is roomd itself, not a copy.
//
// Where the articles leave a gap, all disciplines have the same choice of the lab: the list is a JSON array in
// one string, which callers read, append to and set without a check of its members; a leave is a join in
// reverse; a player who finds the lock held asks again every 5 ms where the article's caller gives up, for at
// most three TTLs of ten seconds. The comment of each discipline names other choices.
//
// A published second lasts Config.Second, so that locks of ten seconds expire in time. All TTLs, waits and
// clocks shrink by this factor, and nothing else does; pauses that are published in milliseconds do not. Redis
// gets such times in milliseconds. Nothing is scaled under heavy load, where nothing has to expire.
//
// # Faults
//
// Faults strike at named steps, never by luck. A plain discipline calls caller.at between its commands, where
// the driver may stop or crash it. roomd has no such calls: the wire of its process recognizes its steps by the
// effect of its requests on the lock and the list, stops all its connections for a pause, and cuts them for a
// crash. So a stopped roomd loses nothing that it has sent: its late commit arrives. If one script acquires and
// reads, or writes and releases, a fault between them strikes at the script's reply. While one caller is in
// trouble two others come, so that a stolen lock shows.
//
// Package anomaly counts from the history alone: the callers' replies, and the contents of Redis, which an observer
// reads after each command of a cell. So it is certain who held the lock, without any clock. Under heavy load there
// is no observer, so that nothing delays the discipline; the final contents of Redis count there, too. quiet.txt has
// the marks of a quiet machine; the report puts others into parentheses, except for roomd's.
package lab

import (
	"cmp"
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

	"roomd/loadtest/internal/scratch"
	"roomd/loadtest/report"
)

// Config says what to run. Its tags are the flags of roomload lab.
type Config struct {
	// An empty Redis starts a redis-server for the run, or the embedded Redis where none is installed.
	Redis string `placeholder:"URL" help:"The Redis to use: redis://… or embedded. Without it roomload starts a redis-server if one is installed, and otherwise the embedded one."`

	// Empty means all. The fault "cache" sends callers to an expired cache entry.
	Only   []string `placeholder:"NAME" help:"Disciplines, separated by commas; see above."`
	Faults []string `placeholder:"NAME" help:"Faults, separated by commas; see above."`

	// Both must be more than zero. With a Second of one second nothing is scaled.
	Duration time.Duration `default:"1s" help:"How long the heavy load lasts for each discipline (${default})."`
	Second   time.Duration `default:"100ms" help:"How long a published second lasts, except under heavy load, from 100ms to 1s (${default})."`

	// Progress, if not nil, is called after each cell of the matrix, one call at a time, with the report so far. It
	// must not keep the report.
	Progress func(r *Report, done *Cell) `kong:"-"`
}

// LeastSecond keeps the shortest TTL, 1 s, well above the delays of the scheduler and the observer.
const LeastSecond = 100 * time.Millisecond

// cacheGuard names the fault that has no column in the matrix.
const cacheGuard = "cache"

// Describe returns the names and descriptions of the disciplines, and of the faults.
func Describe() (ways, troubles []report.Fact) {
	for _, d := range disciplines {
		ways = append(ways, report.Fact{Name: d.name, Text: d.describe()})
	}
	for _, f := range faults {
		troubles = append(troubles, report.Fact{Name: f.name, Text: f.about})
	}
	return ways, append(troubles, report.Fact{Name: cacheGuard,
		Text: "callers at an expired cache entry, behind every lock"})
}

// isChosen reports whether a name is in a list, or the list is empty.
func isChosen(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// Validate returns an error if a value cannot be used. The error names the flag and its value.
func (c Config) Validate() error {
	ways, troubles := Describe()
	if err := cmp.Or(report.CheckNames("only", c.Only, report.Names(ways)),
		report.CheckNames("faults", c.Faults, report.Names(troubles))); err != nil {
		return err
	}
	switch {
	case c.Duration <= 0:
		return fmt.Errorf("--duration is %v, it must be more than zero", c.Duration)
	case c.Second < LeastSecond || c.Second > time.Second:
		return fmt.Errorf("--second is %v, it must be from %v to 1s", c.Second, LeastSecond)
	}
	return scratch.Validate(c.Redis)
}

// lab is one run.
type lab struct {
	cfg    Config
	redis  *redis.Client
	atOnce int          // number of concurrent cells, which mostly wait
	run    string       // part of the rooms' names
	cells  atomic.Int64 // number of started cells

	mu     sync.Mutex
	report *Report // guarded by mu
}

// Run plays the chosen disciplines under the chosen faults, also the cache guard, and returns their anomalies. An
// error says that the lab could not run; see Config.Validate.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	server, err := scratch.Open(ctx, cfg.Redis)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	l := &lab{cfg: cfg, redis: server.NewClient(1), atOnce: 9, run: fmt.Sprintf("%08x", rand.Uint32())}
	defer l.redis.Close()
	if server.IsEmbedded() { // it is slow with scripts
		l.atOnce = 2
	}
	l.report = newReport(cfg, server.String())
	// A remaining key does no harm, so the error is ignored in favour of the report.
	defer func() { _ = server.Remove(ctx, "lab-"+l.run+"-") }()
	for _, alone := range []bool{false, true} { // heavy load does not share the machine
		if err := l.playMatrix(ctx, alone); err != nil {
			return nil, err
		}
	}
	if isChosen(cfg.Faults, cacheGuard) {
		if l.report.Cache, err = l.playCache(ctx); err != nil {
			return nil, err
		}
	}
	l.report.judge()
	return l.report, nil
}

// playMatrix plays cells concurrently, but cells with a heavy load one after the other.
func (l *lab) playMatrix(ctx context.Context, alone bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.atOnce)
	if alone {
		group.SetLimit(1)
	}
	for _, row := range l.report.Disciplines {
		for _, c := range row.Cells {
			if c.Applies && (c.Fault == heavyLoad) == alone {
				group.Go(func() error {
					if err := cmp.Or(l.playCell(ctx, row.discipline, c), context.Cause(ctx)); err != nil {
						return fmt.Errorf("%s under %s: %w", row.Name, c.Fault, err)
					}
					l.mu.Lock()
					defer l.mu.Unlock()
					if c.Done = true; l.cfg.Progress != nil {
						l.cfg.Progress(l.report, c)
					}
					return nil
				})
			}
		}
	}
	return group.Wait()
}

// attempts limits how often a cell is played. On a busy machine something may go wrong before the fault can
// happen or show its listed anomalies.
const attempts = 6

// playCell plays a cell until its fault has happened and has shown the listed anomalies; roomd's, until any
// anomaly shows.
func (l *lab) playCell(ctx context.Context, d *discipline, c *Cell) error {
	second := l.cfg.Second
	if c.Fault == heavyLoad {
		second = time.Second
	}
	for attempt := 1; ; attempt++ {
		x := newCell(l, d, c.fault, second)
		h, err := x.play(ctx, x.playFault)
		if err != nil {
			return err
		}
		l.mu.Lock()
		c.fill(second, h)
		l.mu.Unlock()
		struck := len(c.fault.needs) == 0 || x.struck
		misses := func(l Listed) bool { return l.Fault == c.Fault && !c.shows(l) }
		switch {
		case struck && !slices.ContainsFunc(d.listed, misses), d == &roomd && c.Anomalies.Total() > 0, struck &&
			attempt == attempts:
			return nil
		case attempt == attempts:
			return errors.New("the fault did not happen")
		}
	}
}
