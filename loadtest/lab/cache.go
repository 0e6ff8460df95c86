package lab

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// The cache, in published seconds and numbers.
const (
	cacheCallers = 20
	cacheFresh   = 180 // how long a value is kept
	cacheLoad    = 1   // what a load takes
)

// CacheResult is what one guard did when an entry had expired and many callers
// came at once.
type CacheResult struct {
	Guard string      `json:"guard"`
	Gone  CacheCounts `json:"gone"` // there was no value at all
	Old   CacheCounts `json:"old"`  // the old value was still there beside it
}

// CacheCounts counts what the callers of an expired entry got.
type CacheCounts struct {
	Callers       int     `json:"callers"`
	Loads         int64   `json:"loads"` // how often the database was asked
	LongestWaitMS float64 `json:"longest_wait_ms"`
	Stale         int     `json:"stale"` // were given the old value
	Errors        int     `json:"errors"`
}

// entry is one expired entry and its callers.
type entry struct {
	x     *cell // for its processes; nobody strikes here
	value string
	old   string
	keeps bool // the old value
	loads atomic.Int64
}

// guard is what stands between the callers of an entry and the database.
type guard interface {
	// open readies a process, and returns what undoes it.
	open(e *entry, p *process) (func(), error)
	// leaveOld leaves an entry of which only the old value is there.
	leaveOld(ctx context.Context, e *entry) error
	// get returns the entry's value for a caller, or the old one.
	get(ctx context.Context, e *entry, c *caller) (string, error)
}

// What an entry holds.
const (
	oldValue = "old"
	newValue = "new"
)

// playCache lets callers come at an expired entry behind every guard.
func (l *lab) playCache(ctx context.Context) ([]CacheResult, error) {
	type contender struct {
		d     *discipline
		guard guard
	}
	all := []contender{{&discipline{name: "no-guard", ttl: 2, way: list{}}, unguarded{}}}
	for _, row := range l.report.Disciplines {
		if row.discipline.lock != nil {
			all = append(all, contender{row.discipline, locked{row.discipline.lock}})
		}
	}
	all = append(all, contender{&discipline{name: "cachefill", ttl: 2, way: list{}}, newFilled()})
	var results []CacheResult
	for _, c := range all {
		r := CacheResult{Guard: c.d.name}
		for _, situation := range []struct {
			keeps  bool
			counts *CacheCounts
		}{{false, &r.Gone}, {true, &r.Old}} {
			var err error
			if *situation.counts, err = l.playEntry(ctx, c.d, c.guard, situation.keeps); err != nil {
				return nil, fmt.Errorf("cache behind %s: %w", r.Guard, err)
			}
		}
		results = append(results, r)
	}
	return results, nil
}

// playEntry lets callers of several processes come at an expired entry at once.
func (l *lab) playEntry(ctx context.Context, d *discipline, g guard, keeps bool) (CacheCounts, error) {
	if ctx.Err() != nil {
		return CacheCounts{}, context.Cause(ctx)
	}
	x := newCell(l, d, faults[0], l.cfg.Second)
	e := &entry{x: x, value: "Cache:" + x.id, old: "Cache:" + x.id + ":Old", keeps: keeps}
	for i := range manyProcesses {
		p, err := newProcess(x, fmt.Sprint(i+1), nil)
		if err != nil {
			return CacheCounts{}, err
		}
		defer p.stop()
		done, err := g.open(e, p)
		if err != nil {
			return CacheCounts{}, err
		}
		defer done()
		x.processes = append(x.processes, p)
	}
	if keeps {
		if err := g.leaveOld(ctx, e); err != nil {
			return CacheCounts{}, err
		}
	}
	counts := e.ask(ctx, g)
	e.settle(ctx, g)
	counts.Loads = e.loads.Load()
	return counts, nil
}

// ask lets all callers ask at once and counts what they get.
func (e *entry) ask(ctx context.Context, g guard) CacheCounts {
	counts := CacheCounts{Callers: cacheCallers}
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range cacheCallers {
		c := e.x.callerIn(e.x.processes[i%manyProcesses], fmt.Sprintf("caller-%02d", i+1), false)
		all.Go(func() {
			<-begin
			c.asked = time.Now()
			value, err := g.get(ctx, e, c)
			waited := time.Since(c.asked)
			mu.Lock()
			defer mu.Unlock()
			counts.LongestWaitMS = max(counts.LongestWaitMS, float64(waited.Microseconds())/1000)
			switch {
			case err != nil:
				counts.Errors++
			case value == oldValue:
				counts.Stale++
			}
		})
	}
	close(begin)
	all.Wait()
	return counts
}

// settle asks until the new value is there: it may be loaded in the background.
func (e *entry) settle(ctx context.Context, g guard) {
	c := e.x.callerIn(e.x.processes[0], "the last one", false)
	ctx, cancel := context.WithTimeout(ctx, e.x.patience)
	defer cancel()
	tick := time.NewTicker(spinPause)
	defer tick.Stop()
	for {
		c.asked = time.Now()
		if value, _ := g.get(ctx, e, c); value == newValue || ctx.Err() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// load asks the database.
func (e *entry) load(ctx context.Context) (string, error) {
	e.loads.Add(1)
	took := time.NewTimer(e.x.seconds(cacheLoad))
	defer took.Stop()
	select {
	case <-took.C:
		return newValue, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
