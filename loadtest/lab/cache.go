package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/pause"
)

// CacheResult is how one lock served the callers of an expired entry.
type CacheResult struct {
	Guard string      `json:"guard"`
	Gone  CacheCounts `json:"gone"` // many concurrent callers, and no value
	Old   CacheCounts `json:"old"`  // many concurrent callers, and an old value
	Slow  CacheCounts `json:"slow"` // three callers, and a load longer than the lock's TTL
	Dead  CacheCounts `json:"dead"` // the first loader dies; the others use the old value
	// three callers in turn, and the database has no value; zero if nothing is published about that
	Empty CacheCounts `json:"empty,omitzero"`
}

// CacheCounts has the results of an expired entry's callers.
type CacheCounts struct {
	Callers       int     `json:"callers"`
	Loads         int     `json:"loads"`   // requests to the database
	AtOnce        int     `json:"at_once"` // most concurrent loads
	Freed         int     `json:"freed"`   // locks deleted by another caller's command
	LongestWaitMS float64 `json:"longest_wait_ms"`
	Stale         int     `json:"stale"` // callers that got the old value
	Errors        int     `json:"errors"`
	UpdatedMS     float64 `json:"updated_ms"` // until the new value was stored
	Never         bool    `json:"never"`      // the new value was not stored while callers came
}

// The cache's times in published seconds. A load ends well before the shortest TTL.
const (
	cacheCallers = 20
	cacheFresh   = 180 // how long a value lives
	cacheLoad    = 0.5 // how long a load takes
	slowLoad     = 1.6 // in TTLs: longer than the lock
)

// Contents of an entry.
const (
	oldValue  = "old"
	newValue  = "new"
	emptyCode = "(empty)" // the database has no value; the code is the lab's choice
)

// unguarded is a discipline without a lock.
var unguarded = discipline{name: "no-guard", ttl: 2}

// entry is one expired entry and its callers. A few callers have a process each, under the observer; many share some.
type entry struct {
	comes []float64 // arrivals of the callers, in published seconds
	slow  bool      // loads take slowLoad
	keeps bool      // there is an old value
	dies  bool      // the first caller dies while it loads
	empty bool      // the database has no value

	x     *cell // the cell that runs its processes, without a fault
	value string
	old   string
	takes time.Duration // duration of a load
	dying *caller       // the caller that dies

	mu      sync.Mutex
	loading int         // guarded by mu; number of running loads
	counts  CacheCounts // guarded by mu
}

// playCache sends callers to an expired entry without a lock, and with every lock.
func (l *lab) playCache(ctx context.Context) ([]CacheResult, error) {
	all := []*discipline{&unguarded}
	for _, row := range l.report.Disciplines {
		if row.discipline.lock != nil {
			all = append(all, row.discipline)
		}
	}
	results := make([]CacheResult, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.atOnce)
	for i, d := range all {
		group.Go(func() (err error) {
			r := &results[i]
			r.Guard = d.name
			// plays until the new value is stored, or it is clear that it will not be
			play := func(counts *CacheCounts, e *entry) {
				if err != nil {
					return
				}
				x := newCell(l, d, &fault{name: cacheGuard}, l.cfg.Second)
				var h anomaly.History
				h, err = x.play(ctx, e.in(x).play)
				_, found := anomaly.Find(h)
				*counts, counts.Freed = e.counts, found.Deleted
			}
			play(&r.Gone, &entry{comes: make([]float64, cacheCallers)})
			play(&r.Old, &entry{comes: make([]float64, cacheCallers), keeps: true})
			// one before the lock expires, one after
			play(&r.Slow, &entry{comes: []float64{0, 0.5 * d.ttl, 1.25 * d.ttl}, slow: true})
			play(&r.Dead, &entry{comes: []float64{0, 1}, keeps: true, dies: true})
			if d.lock == nil || d.article == stampArticle {
				play(&r.Empty, &entry{comes: []float64{0, 1, 2}, empty: true})
			}
			return err
		})
	}
	return results, group.Wait()
}

// in sets the entry's cell, its keys there and how long a load takes.
func (e *entry) in(x *cell) *entry {
	e.x, e.value, e.old, e.takes = x, "Cache:"+x.id, "Cache:"+x.id+":Old", x.seconds(cacheLoad)
	if e.slow {
		e.takes = x.seconds(slowLoad * x.d.ttl)
	}
	return e
}

// play makes callers come at their times, once all are connected.
func (e *entry) play(ctx context.Context) error {
	x := e.x
	callers := make([]*caller, len(e.comes))
	for i := range callers {
		callers[i] = &caller{user: fmt.Sprintf("caller-%02d", i+1)}
	}
	if err := x.addTo(callers...); err != nil {
		return err
	}
	if e.dies {
		e.dying = callers[0]
	}
	if e.keeps {
		if err := x.home.rdb.Set(ctx, e.old, oldValue, x.seconds(cacheFresh)).Err(); err != nil {
			return err
		}
	}
	var connected, all sync.WaitGroup
	connected.Add(len(callers))
	for i, c := range callers {
		all.Go(func() {
			_ = c.rdb.Ping(ctx).Err() // only connects; later commands report errors
			connected.Done()
			connected.Wait()
			if pause.For(ctx, x.seconds(e.comes[i])) == nil {
				e.visit(ctx, c)
			}
		})
	}
	connected.Wait()
	begun := time.Now()
	all.Wait()
	n := &e.counts
	if n.Callers = len(callers); !e.empty { // others keep coming
		ctx, cancel := context.WithTimeout(ctx, x.patience)
		defer cancel()
		c := &caller{process: callers[len(callers)-1].process, user: "the last one"}
		for value := ""; value != newValue && !n.Never; {
			c.asked = time.Now()
			value, _ = e.get(ctx, c)
			n.Never = value != newValue && pause.For(ctx, spinPause) != nil
		}
	}
	n.UpdatedMS = ms(time.Since(begun))
	return nil
}

// visit lets a caller ask for the value, and counts the result.
func (e *entry) visit(ctx context.Context, c *caller) {
	c.asked = time.Now()
	value, err := e.get(ctx, c)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts.LongestWaitMS = max(e.counts.LongestWaitMS, ms(time.Since(c.asked)))
	if err != nil {
		e.counts.Errors++
	} else if value == oldValue {
		e.counts.Stale++
	}
}

func (e *entry) load(ctx context.Context, c *caller) (string, error) {
	loads := func(n int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.loading += n
		e.counts.Loads += max(0, n)
		e.counts.AtOnce = max(e.counts.AtOnce, e.loading)
	}
	loads(1)
	defer loads(-1)
	switch err := pause.For(ctx, e.takes); {
	case err != nil:
		return "", err
	case e.dying == c:
		c.process.die()
		return "", errDied
	case e.empty && e.x.d.article == stampArticle:
		return emptyCode, nil
	case e.empty:
		return "", nil
	}
	return newValue, nil
}

var (
	errNoValue  = errors.New("no value, and the caller may not load one")
	errTimedOut = errors.New("the lock did not come free")
	errDied     = errors.New("the loader has died") // it does nothing more
)

// get returns the entry's value for a caller, or the old one. The lock's holder loads and stores the value, without
// checking again. Other callers use the old value if there is one and the lock does not wait; otherwise they wait. The
// outcome of a lock that waits means what the article says: 1, load; 2, read the value, which should be there; 0, an
// error, unless the caller may check once more.
func (e *entry) get(ctx context.Context, c *caller) (string, error) {
	if value, err := c.read(ctx, e.value); !errors.Is(err, errNoValue) {
		return value, err
	}
	lock := e.x.d.lock
	if lock != nil {
		switch o, err := lock.ask(ctx, c); {
		case err != nil:
			return "", err
		case o == acquired:
		case lock.again == 0 && e.keeps:
			return c.read(ctx, e.old)
		case lock.again == 0:
			return e.await(ctx, c)
		case o == vanished || lock.looksAfterTimeout:
			return c.read(ctx, e.value)
		default:
			return "", errTimedOut
		}
	}
	value, err := e.load(ctx, c)
	if err == nil && value != "" {
		err = c.send(ctx, fmt.Sprintf("SETEX %s %ds %s", e.value, cacheFresh, value)).Err()
	}
	if err != nil || lock == nil {
		return value, err
	}
	return value, lock.unlock(ctx, c)
}

// await polls until another caller has stored the value.
func (e *entry) await(ctx context.Context, c *caller) (value string, err error) {
	for err = errNoValue; errors.Is(err, errNoValue); value, err = c.read(ctx, e.value) {
		if err := c.pause(ctx, spinPause); err != nil {
			return "", err
		}
	}
	return value, err
}

// read returns a value that should be there.
func (p *process) read(ctx context.Context, key string) (string, error) {
	value, there, err := p.get(ctx, key)
	if err == nil && !there {
		err = errNoValue
	}
	return value, err
}

// cache returns the results of the locks.
func (r *Report) cache() *report.Table {
	const gone, old, slow, dead, empty = "no value", "old kept", "slow load", "dead loader", "empty"
	t := &report.Table{
		Title: "cache", Subtitle: fmt.Sprintf("callers at an expired entry: %d at once; three around a load of %.1f TTLs; after one that dies while it loads; "+
			"three in turn, and the database has nothing", cacheCallers, slowLoad),
		Columns: []report.Column{{Head: "guard"},
			{Head: "loads", Group: gone, About: "how often the database was asked; 1 is best"},
			{Head: "longest s", Group: gone, About: "the longest wait for an answer, in published seconds; a load takes 0.5 s"},
			{Head: "errors", Group: gone, About: "callers that got no value"},
			{Head: "loads", Group: old}, {Head: "longest s", Group: old},
			{Head: "stale", Group: old, About: "callers that got the old value"}, {Head: "errors", Group: old},
			{Head: "loads", Group: slow}, {Head: "at once", Group: slow, About: "the most loads at the same time"},
			{Head: "freed", Group: slow, About: "locks deleted by another caller's command"},
			{Head: "errors", Group: slow},
			{Head: "updated s", Group: dead, About: "until the new value was there, while others kept coming"},
			{Head: "loads", Group: empty, About: "– where the article does not say"}},
		Notes: []string{"A lock without a published wait is tried once. Who does not get it reads the value until it is there, or uses the old one."},
	}
	for _, c := range r.Cache {
		row := report.Row{Cells: []string{c.Guard}}
		for _, figure := range []any{
			c.Gone.Loads, c.Gone.LongestWaitMS, c.Gone.Errors, c.Old.Loads, c.Old.LongestWaitMS, c.Old.Stale,
			c.Old.Errors, c.Slow.Loads, c.Slow.AtOnce, c.Slow.Freed, c.Slow.Errors, c.Dead.UpdatedMS, c.Empty.Loads,
		} {
			if ms, is := figure.(float64); is {
				figure = fmt.Sprintf("%.1f", ms/r.SecondMS)
			}
			row.Cells = append(row.Cells, fmt.Sprint(figure))
		}
		if c.Dead.Never {
			row.Cells[len(row.Cells)-2] = "never"
		}
		if c.Empty.Callers == 0 {
			row.Cells[len(row.Cells)-1] = markNone
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
