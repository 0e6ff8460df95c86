package lab

import (
	"fmt"
	"slices"
	"time"

	"roomd/loadtest/report"
)

// totals are a discipline's numbers over all faults.
type totals struct {
	lost, phantom, twice, both, deleted int
	bothTime                            float64 // published seconds
	stuck                               float64 // published seconds, the longest
	never                               bool    // the room did not come free while anybody waited
	forever                             bool    // nor will it ever
	heavy                               *Cell   // of contention
}

func (r *Row) totals() totals {
	t := totals{heavy: r.cell(heavyLoad)}
	for _, c := range r.Cells {
		if !c.Done {
			continue
		}
		second := float64(c.second) / float64(time.Millisecond)
		a := c.Anomalies
		t.lost += a.Lost
		t.phantom += a.Phantom
		t.twice += a.Duplicate
		t.both += a.TwoHolders
		t.bothTime += a.TwoHoldersMS / second
		t.deleted += a.Deleted
		t.stuck = max(t.stuck, a.StuckMS/second)
		t.never = t.never || a.Stuck > 0
		t.forever = t.forever || a.Forever
	}
	return t
}

// stuckFor returns the longest time that a room was stuck.
func (t totals) stuckFor() string {
	switch {
	case t.forever:
		return "for ever"
	case t.never:
		return fmt.Sprintf("over %.0f s", t.stuck)
	}
	return fmt.Sprintf("%.1f s", t.stuck)
}

// atOnce returns how often two held the lock, and for how long in total.
func (t totals) atOnce() string {
	if t.both == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.2f s)", t.both, t.bothTime)
}

func (r *Row) seen() string {
	seen := 0
	for _, l := range r.Listed {
		if l.Seen {
			seen++
		}
	}
	return fmt.Sprintf("%d of %d", seen, len(r.Listed))
}

// numbers returns each discipline's numbers.
func (r *Report) numbers() *report.Table {
	t := &report.Table{
		Columns: []report.Column{
			{Head: "all faults"},
			{Head: "lost", About: "acknowledged joins and leaves that are not in the list"},
			{Head: "phantoms", About: "users in the list after a leave or a refused join"},
			{Head: "twice in", About: "users who were in the list twice"},
			{Head: "two at once", About: "how often two held the lock at once and wrote, and for how long in total"},
			{Head: "deleted", About: "locks deleted by somebody else's command"},
			{Head: "stuck", About: "the longest time in which nobody could get the lock"},
			{Head: "listed, seen", About: "how many of the known anomalies of the discipline this run showed"},
		},
		Notes: []string{"two at once: how often, and for how long in total. stuck: the longest. Both in published seconds."},
	}
	if slices.ContainsFunc(r.Disciplines, func(row *Row) bool { return row.cell(heavyLoad).Done }) {
		t.Columns = append(t.Columns,
			report.Column{Head: "actions/s", Group: "heavy load", About: "acknowledged joins and leaves per second"}, report.Column{Head: "p50", Group: "heavy load", About: "half of the requests took at most so long"},
			report.Column{Head: "p99", Group: "heavy load", About: "99 of 100 requests took at most so long"}, report.Column{Head: "max", Group: "heavy load", About: "the longest request"})
	}
	for _, row := range r.Disciplines {
		n := row.totals()
		line := []string{row.Name, fmt.Sprint(n.lost), fmt.Sprint(n.phantom), fmt.Sprint(n.twice), n.atOnce(), fmt.Sprint(n.deleted), n.stuckFor(), row.seen()}
		if n.heavy.Done {
			l := n.heavy.Latency
			line = append(line, fmt.Sprintf("%.0f", n.heavy.ActionsPerSec),
				l.P50.Text("%.2f ms"), l.P99.Text("%.1f ms"), l.Max.Text("%.0f ms"))
		}
		t.Rows = append(t.Rows, report.Row{Cells: line, Strong: row.discipline == &roomd})
	}
	return t
}

// cache returns the results of the cache guards.
func (r *Report) cache() *report.Table {
	t := &report.Table{
		Title:    "cache",
		Subtitle: fmt.Sprintf("%d callers at an expired cache entry; a load takes %.1f s (published seconds)", cacheCallers, cacheLoad),
		Columns:  []report.Column{{Head: "guard"}},
		Notes:    []string{"A lock without a published wait is tried once. Who does not get it reads the value until it is there, or uses the old one."},
	}
	for _, group := range []string{"no value", "old value kept"} {
		t.Columns = append(t.Columns, report.Column{Head: "loads", Group: group, About: "how often the database was asked; 1 is best"}, report.Column{Head: "longest wait", Group: group, About: "until a caller had its answer"},
			report.Column{Head: "stale", Group: group, About: "callers who got the old value"}, report.Column{Head: "errors", Group: group, About: "callers who got no value"})
	}
	for _, c := range r.Cache {
		line := []string{c.Guard}
		for _, n := range []CacheCounts{c.Gone, c.Old} {
			line = append(line, fmt.Sprint(n.Loads), fmt.Sprintf("%.1f s", n.LongestWaitMS/r.SecondMS), fmt.Sprint(n.Stale), fmt.Sprint(n.Errors))
		}
		t.Rows = append(t.Rows, report.Row{Cells: line, Strong: c.Guard == cachefillGuard})
	}
	return t
}

// cacheFaults returns what happens to the guards when a load goes wrong.
func (r *Report) cacheFaults() *report.Table {
	const slow, dead = "slow load", "dead loader"
	t := &report.Table{
		Title: "cache, and a load goes wrong",
		Subtitle: fmt.Sprintf("%d callers, one after the other, when a load takes %.1f TTLs; callers after one who dies while it loads; %d callers, one after the other, and the database has nothing",
			len(slowVisits), slowLoad, emptyVisits),
		Columns: []report.Column{{Head: "guard"},
			{Head: "loads", Group: slow, About: "how often the database was asked, when a load outlasts the lock's TTL"},
			{Head: "at once", Group: slow, About: "the most loads at the same time"},
			{Head: "others' locks freed", Group: slow, About: "locks deleted by another caller's command"},
			{Head: "errors", Group: slow, About: "callers who got no value"},
			{Head: "updated after", Group: dead, About: "until the new value was there. Others kept coming, and used the old value if they may"},
			{Head: "loads", Group: "empty result", About: "how often the database was asked for what it does not have; – where the article does not say"},
		},
	}
	for _, c := range r.Cache {
		updated, empty := fmt.Sprintf("%.1f s", c.Dead.UpdatedMS/r.SecondMS), markNone
		if c.Dead.Never {
			updated = "never"
		}
		if c.EmptyLoads != nil {
			empty = fmt.Sprint(*c.EmptyLoads)
		}
		t.Rows = append(t.Rows, report.Row{Strong: c.Guard == cachefillGuard, Cells: []string{c.Guard,
			fmt.Sprint(c.Slow.Loads), fmt.Sprint(c.Slow.AtOnce), fmt.Sprint(c.Slow.Freed), fmt.Sprint(c.Slow.Errors), updated, empty}})
	}
	return t
}
