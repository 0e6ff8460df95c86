package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// The cache, in published seconds. A load ends well before the shortest TTL.
const (
	cacheCallers = 20
	cacheFresh   = 180 // how long a value lives
	cacheLoad    = 0.5 // how long a load takes
)

// CacheResult is how one guard handled the callers of an expired entry.
type CacheResult struct {
	Guard string      `json:"guard"`
	Gone  CacheCounts `json:"gone"` // many callers at once, and no value at all
	Old   CacheCounts `json:"old"`  // many callers at once, and the old value kept
	Slow  SlowCounts  `json:"slow"` // three callers, and a load outlasts the lock's TTL
	Dead  DeadCounts  `json:"dead"` // the first loader dies, the others use the old value

	// EmptyLoads is how often three callers, one after the other, ask for what the
	// database does not have; nil if nothing is published about that.
	EmptyLoads *int64 `json:"empty_loads,omitempty"`
}

// CacheCounts counts the outcomes of an expired entry's callers.
type CacheCounts struct {
	Callers       int     `json:"callers"`
	Loads         int64   `json:"loads"` // requests to the database
	LongestWaitMS float64 `json:"longest_wait_ms"`
	Stale         int     `json:"stale"` // callers that got the old value
	Errors        int     `json:"errors"`
}

// SlowCounts also counts the effects of a load that outlasts the lock's TTL.
type SlowCounts struct {
	CacheCounts
	AtOnce int64 `json:"at_once"` // most loads at the same time
	Freed  int   `json:"freed"`   // locks deleted by another caller's command
}

// DeadCounts are the effects of a loader that dies.
type DeadCounts struct {
	Loads     int64   `json:"loads"`
	UpdatedMS float64 `json:"updated_ms"` // until the new value was there
	Never     bool    `json:"never"`      // it was not, as long as callers came
}

// entry is one expired entry and its callers.
type entry struct {
	x       *cell // for its processes; no fault strikes here
	value   string
	old     string
	keeps   bool          // the old value
	takes   time.Duration // how long a load takes
	empty   bool          // the database has nothing
	dies    *caller       // while it loads
	loads   atomic.Int64
	loading atomic.Int64 // loads that run now
	atOnce  atomic.Int64 // most of them so far
}

// guard is what stands between the callers of an entry and the database.
type guard interface {
	// open prepares a process, and returns the function that undoes it.
	open(e *entry, p *process) (func(), error)
	// leaveOld makes an entry that has only its old value.
	leaveOld(ctx context.Context, e *entry) error
	// get returns the entry's value for a caller, or the old one.
	get(ctx context.Context, e *entry, c *caller) (string, error)
}

// contender is a guard and its discipline.
type contender struct {
	d     *discipline
	guard guard
}

// What an entry holds.
const (
	oldValue = "old"
	newValue = "new"
	// emptyCode says that the database has nothing. The code is the lab's choice.
	emptyCode = "(empty)"
)

// cachefillGuard is the guard that this project has.
const cachefillGuard = "cachefill"

// playCache sends callers to an expired entry behind every guard.
func (l *lab) playCache(ctx context.Context) ([]CacheResult, error) {
	all := []contender{{&discipline{name: "no-guard", ttl: 2}, unguarded{}}}
	for _, row := range l.report.Disciplines {
		if row.discipline.lock != nil {
			all = append(all, contender{row.discipline, locked{row.discipline.lock}})
		}
	}
	all = append(all, contender{&discipline{name: cachefillGuard, ttl: fillTTL}, newFilled()})
	results := make([]CacheResult, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.cellsAtOnce())
	for i, c := range all {
		group.Go(func() (err error) {
			results[i], err = l.playGuard(ctx, c)
			return err
		})
	}
	return results, group.Wait()
}

func (l *lab) playGuard(ctx context.Context, c contender) (CacheResult, error) {
	r := CacheResult{Guard: c.d.name}
	var err error
	if r.Gone, err = l.playEntry(ctx, c, false); err == nil {
		if r.Old, err = l.playEntry(ctx, c, true); err == nil {
			if r.Slow, err = l.playSlow(ctx, c); err == nil {
				if r.Dead, err = l.playDead(ctx, c); err == nil {
					r.EmptyLoads, err = l.playEmpty(ctx, c)
				}
			}
		}
	}
	if err != nil {
		return r, fmt.Errorf("cache behind %s: %w", r.Guard, err)
	}
	return r, nil
}

func newEntry(x *cell, load float64) *entry {
	return &entry{x: x, value: "Cache:" + x.id, old: "Cache:" + x.id + ":Old", takes: x.seconds(load)}
}

// playEntry sends callers of several processes to an expired entry at once.
func (l *lab) playEntry(ctx context.Context, who contender, keeps bool) (counts CacheCounts, err error) {
	err = l.withEntry(ctx, who, manyProcesses, keeps, func(e *entry) error {
		if keeps {
			if err := who.guard.leaveOld(ctx, e); err != nil {
				return err
			}
		}
		var visits []visit
		for i := range cacheCallers {
			visits = append(visits, visit{c: e.x.callerIn(e.x.processes[i%manyProcesses], fmt.Sprintf("caller-%02d", i+1), false)})
		}
		counts = e.ask(ctx, who.guard, visits)
		return nil
	})
	return counts, err
}

// withEntry runs do with an entry behind a guard that is open in so many processes.
func (l *lab) withEntry(ctx context.Context, who contender, processes int, keeps bool, do func(*entry) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	x := newCell(l, who.d, faults[0], l.cfg.Second)
	e := newEntry(x, cacheLoad)
	e.keeps = keeps
	for i := range processes {
		p, err := newProcess(x, fmt.Sprint(i+1), nil)
		if err != nil {
			return err
		}
		defer p.stop()
		done, err := who.guard.open(e, p)
		if err != nil {
			return err
		}
		defer done()
		x.processes = append(x.processes, p)
	}
	return do(e)
}

// visit is a caller that comes to an entry.
type visit struct {
	c     *caller
	after time.Duration // since the first
}

// ask connects all callers, lets them ask, and counts the outcomes. It returns when the
// new value is there.
func (e *entry) ask(ctx context.Context, g guard, visits []visit) CacheCounts {
	counts := CacheCounts{Callers: len(visits)}
	var mu sync.Mutex
	var ready, all sync.WaitGroup
	begin := make(chan struct{})
	for _, v := range visits {
		ready.Add(1)
		all.Go(func() {
			_ = v.c.process.rdb.Ping(ctx).Err() // if it fails, so does the next
			ready.Done()
			<-begin
			if v.after > 0 && sleep(ctx, v.after, nil) != nil {
				return
			}
			v.c.asked = time.Now()
			value, err := g.get(ctx, e, v.c)
			waited := time.Since(v.c.asked)
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
	ready.Wait()
	close(begin)
	all.Wait()
	e.awaitNew(ctx, g, e.x.processes[0])
	counts.Loads = e.loads.Load()
	return counts
}

// awaitNew asks until the new value is there, which may load in the background, and
// reports whether it came.
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
	for most := e.atOnce.Load(); now > most && !e.atOnce.CompareAndSwap(most, now); {
		most = e.atOnce.Load()
	}
	err := sleep(ctx, e.takes, nil)
	switch {
	case err != nil:
		return "", err
	case e.dies == c:
		c.process.die()
		return "", errDied
	case e.empty:
		return "", nil
	}
	return newValue, nil
}

// errDied ends a loader that died: it does nothing more.
var errDied = errors.New("the loader has died")
