package lab

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/report"
)

// CacheResult is how one guard handled the callers of an expired entry.
type CacheResult struct {
	Guard string      `json:"guard"`
	Gone  CacheCounts `json:"gone"`           // many callers at once, and no value at all
	Old   CacheCounts `json:"old"`            // many callers at once, and the old value kept
	Slow  CacheCounts `json:"slow"`           // three callers, and a load outlasts the lock's TTL
	Dead  CacheCounts `json:"dead"`           // the first loader dies, the others use the old value
	Empty CacheCounts `json:"empty,omitzero"` // three callers in turn, and the database has nothing; zero if nothing is published about that
}

// CacheCounts are the outcomes of an expired entry's callers.
type CacheCounts struct {
	Callers       int     `json:"callers"`
	Loads         int64   `json:"loads"`   // requests to the database
	AtOnce        int64   `json:"at_once"` // most loads at the same time
	Freed         int     `json:"freed"`   // locks deleted by another caller's command
	LongestWaitMS float64 `json:"longest_wait_ms"`
	Stale         int     `json:"stale"` // callers that got the old value
	Errors        int     `json:"errors"`
	UpdatedMS     float64 `json:"updated_ms"` // until the new value was there
	Never         bool    `json:"never"`      // it was not, as long as callers came
}

// The cache, in published seconds. A load ends well before the shortest TTL.
const (
	cacheCallers = 20
	cacheFresh   = 180 // how long a value lives
	cacheLoad    = 0.5 // how long a load takes
	slowLoad     = 1.6 // in TTLs: one that outlasts the lock
)

// scene is callers that come to an expired entry, each in a process of its own.
type scene struct {
	callers int
	comes   func(i int, ttl float64) float64 // when each of them comes, in published seconds
	slow    bool                             // a load takes slowLoad
	keeps   bool                             // the old value is there
	dies    bool                             // the first caller, while it loads
	empty   bool                             // the database has nothing
}

func atOnce(int, float64) float64 { return 0 }

func inTurn(i int, _ float64) float64 { return float64(i) }

// aroundExpiry has the second come before the lock expires, and the third after that, while the first still loads.
func aroundExpiry(i int, ttl float64) float64 { return []float64{0, 0.5, 1.25}[i] * ttl }

// entry is one expired entry and its callers.
type entry struct {
	scene
	x       *cell // for its processes; no fault strikes here
	value   string
	old     string
	takes   time.Duration // how long a load takes
	dying   *caller       // while it loads
	loads   atomic.Int64
	loading atomic.Int64 // loads that run now
	most    atomic.Int64 // of them so far
}

func newEntry(x *cell, s scene) *entry {
	e := &entry{scene: s, x: x, value: "Cache:" + x.id, old: "Cache:" + x.id + ":Old", takes: x.seconds(cacheLoad)}
	if s.slow {
		e.takes = x.seconds(slowLoad * x.d.ttl)
	}
	return e
}

// What an entry holds.
const (
	oldValue  = "old"
	newValue  = "new"
	emptyCode = "(empty)" // the database has nothing; the code is the lab's choice
)

// cachefillGuard is the guard that this project has.
const cachefillGuard = "cachefill"

// playCache sends callers to an expired entry without a guard, behind every lock, and behind cachefill.
func (l *lab) playCache(ctx context.Context) ([]CacheResult, error) {
	all := []*discipline{{name: "no-guard", ttl: 2}}
	for _, row := range l.report.Disciplines {
		if row.discipline.lock != nil {
			all = append(all, row.discipline)
		}
	}
	all = append(all, &discipline{name: cachefillGuard, ttl: timestampTTL})
	results := make([]CacheResult, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.cellsAtOnce())
	for i, d := range all {
		group.Go(func() (err error) {
			r := &results[i]
			r.Guard = d.name
			play := func(counts *CacheCounts, s scene) {
				if err == nil {
					*counts, err = l.playScene(ctx, d, s)
				}
			}
			play(&r.Gone, scene{callers: cacheCallers, comes: atOnce})
			play(&r.Old, scene{callers: cacheCallers, comes: atOnce, keeps: true})
			play(&r.Slow, scene{callers: 3, comes: aroundExpiry, slow: true})
			play(&r.Dead, scene{callers: 2, comes: inTurn, keeps: true, dies: true})
			if d.lock == nil || d.lock.keepsEmpty {
				play(&r.Empty, scene{callers: 3, comes: inTurn, empty: true})
			}
			if err != nil {
				err = fmt.Errorf("cache behind %s: %w", d.name, err)
			}
			return err
		})
	}
	return results, group.Wait()
}

// playScene sends callers to an entry, under the observer, which sees whose lock each release deletes.
func (l *lab) playScene(ctx context.Context, d *discipline, s scene) (counts CacheCounts, err error) {
	var g guard = locked{d.lock}
	if d.name == cachefillGuard {
		g = filled{}
	}
	history, err := newCell(l, d, &fault{name: cacheGuard, play: func(ctx context.Context, x *cell) error {
		e := newEntry(x, s)
		var callers []*caller
		for i := range s.callers {
			c, err := x.caller(fmt.Sprintf("caller-%02d", i+1), false)
			if err != nil {
				return err
			}
			done, err := g.open(e, c.process)
			if err != nil {
				return err
			}
			defer done()
			callers = append(callers, c)
		}
		if s.dies {
			e.dying = callers[0]
		}
		if s.keeps {
			if err := g.leaveOld(ctx, e); err != nil {
				return err
			}
		}
		counts = e.ask(ctx, g, callers)
		return nil
	}}, l.cfg.Second).play(ctx)
	counts.Freed = anomaly.Find(history).Counts().Deleted
	return counts, err
}

// ask connects all callers, lets them ask, and counts the outcomes. It returns when the new value is there, or nobody hopes
// for it any more.
func (e *entry) ask(ctx context.Context, g guard, callers []*caller) CacheCounts {
	counts := CacheCounts{Callers: len(callers)}
	var mu sync.Mutex
	var ready, all sync.WaitGroup
	begin := make(chan struct{})
	for i, c := range callers {
		ready.Add(1)
		all.Go(func() {
			_ = c.process.rdb.Ping(ctx).Err() // if it fails, so does the next
			ready.Done()
			<-begin
			if sleep(ctx, e.x.seconds(e.comes(i, e.x.d.ttl)), nil) != nil {
				return
			}
			c.asked = time.Now()
			value, err := g.get(ctx, e, c)
			waited := time.Since(c.asked)
			mu.Lock()
			defer mu.Unlock()
			counts.LongestWaitMS = max(counts.LongestWaitMS, ms(waited))
			if err != nil {
				counts.Errors++
			} else if value == oldValue {
				counts.Stale++
			}
		})
	}
	ready.Wait()
	begun := time.Now()
	close(begin)
	all.Wait()
	counts.Never = !e.empty && !e.awaitNew(ctx, g, callers[len(callers)-1].process)
	counts.UpdatedMS = ms(time.Since(begun))
	counts.Loads, counts.AtOnce = e.loads.Load(), e.most.Load()
	return counts
}

// awaitNew asks until the new value is there, which may load in the background, and reports whether it came.
func (e *entry) awaitNew(ctx context.Context, g guard, p *process) bool {
	c := e.x.callerIn(p, "the last one", false)
	ctx, cancel := context.WithTimeout(ctx, e.x.patience)
	defer cancel()
	for {
		c.asked = time.Now()
		if value, _ := g.get(ctx, e, c); value == newValue {
			return true
		}
		if sleep(ctx, spinPause, nil) != nil {
			return false
		}
	}
}

// load asks the database.
func (e *entry) load(ctx context.Context, c *caller) (string, error) {
	e.loads.Add(1)
	now := e.loading.Add(1)
	defer e.loading.Add(-1)
	for most := e.most.Load(); now > most && !e.most.CompareAndSwap(most, now); {
		most = e.most.Load()
	}
	err := sleep(ctx, e.takes, nil)
	switch {
	case err != nil:
		return "", err
	case e.dying == c:
		c.process.die()
		return "", errDied
	case e.empty:
		return "", nil
	}
	return newValue, nil
}

// cache returns the results of the guards.
func (r *Report) cache() []*report.Table {
	type column struct {
		head, about string
		of          func(CacheCounts) string
	}
	count := func(of func(CacheCounts) int) func(CacheCounts) string {
		return func(c CacheCounts) string { return fmt.Sprint(of(c)) }
	}
	loads := column{"loads", "how often the database was asked; 1 is best", count(func(c CacheCounts) int { return int(c.Loads) })}
	longest := column{"longest wait", "until a caller had its answer, in published seconds",
		func(c CacheCounts) string { return fmt.Sprintf("%.1f s", c.LongestWaitMS/r.SecondMS) }}
	stale := column{"stale", "callers that got the old value", count(func(c CacheCounts) int { return c.Stale })}
	errs := column{"errors", "callers that got no value", count(func(c CacheCounts) int { return c.Errors })}
	most := column{"at once", "the most loads at the same time", count(func(c CacheCounts) int { return int(c.AtOnce) })}
	freed := column{"others' locks freed", "locks deleted by another caller's command", count(func(c CacheCounts) int { return c.Freed })}
	updated := column{"updated after", "until the new value was there, while others kept coming", func(c CacheCounts) string {
		if c.Never {
			return "never"
		}
		return fmt.Sprintf("%.1f s", c.UpdatedMS/r.SecondMS)
	}}
	tables := []*report.Table{
		{Title: "cache", Subtitle: fmt.Sprintf("%d callers at an expired entry; a load takes %.1f s (published seconds)", cacheCallers, cacheLoad),
			Notes: []string{"A lock without a published wait is tried once. Who does not get it reads the value until it is there, or uses the old one."}},
		{Title: "cache, and a load goes wrong", Subtitle: fmt.Sprintf("three callers, and a load takes %.1f TTLs of the lock; callers after one that dies while it "+
			"loads; three callers in turn, and the database has nothing (– where the article does not say)", slowLoad)},
	}
	for i, group := range []struct {
		name    string
		of      func(CacheResult) CacheCounts
		columns []column
	}{
		{"no value", func(c CacheResult) CacheCounts { return c.Gone }, []column{loads, longest, errs}},
		{"old value kept", func(c CacheResult) CacheCounts { return c.Old }, []column{loads, longest, stale, errs}},
		{"slow load", func(c CacheResult) CacheCounts { return c.Slow }, []column{loads, most, freed, errs}},
		{"dead loader", func(c CacheResult) CacheCounts { return c.Dead }, []column{updated}},
		{"empty result", func(c CacheResult) CacheCounts { return c.Empty }, []column{loads}},
	} {
		t := tables[min(1, i/2)]
		if len(t.Columns) == 0 {
			t.Columns = []report.Column{{Head: "guard"}}
			for _, c := range r.Cache {
				t.Rows = append(t.Rows, report.Row{Cells: []string{c.Guard}, Strong: c.Guard == cachefillGuard})
			}
		}
		for _, c := range group.columns {
			t.Columns = append(t.Columns, report.Column{Head: c.head, Group: group.name, About: c.about})
			for i := range t.Rows {
				text := markNone
				if counts := group.of(r.Cache[i]); counts.Callers > 0 {
					text = c.of(counts)
				}
				t.Rows[i].Cells = append(t.Rows[i].Cells, text)
			}
		}
	}
	if len(r.Cache) == 0 {
		return nil
	}
	return tables
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
