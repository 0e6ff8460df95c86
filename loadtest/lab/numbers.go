package lab

import (
	"fmt"
	"slices"
	"strings"
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
	t := totals{heavy: r.cell(contention)}
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

// writeNumbers writes each discipline's numbers.
func (r *Report) writeNumbers(w *strings.Builder) {
	head := []string{"all faults", "lost", "phantoms", "twice in", "two at once", "deleted", "stuck", "listed, seen"}
	if slices.ContainsFunc(r.Disciplines, func(row *Row) bool { return row.cell(contention).Done }) {
		head = append(head, "| heavy load: actions/s", "p50", "p99", "max")
	}
	lines := [][]string{head}
	for _, row := range r.Disciplines {
		n := row.totals()
		line := []string{row.Name, fmt.Sprint(n.lost), fmt.Sprint(n.phantom), fmt.Sprint(n.twice), n.atOnce(), fmt.Sprint(n.deleted), n.stuckFor(), row.seen()}
		if n.heavy.Done {
			l := n.heavy.Latency
			line = append(line, fmt.Sprintf("%.0f", n.heavy.ActionsPerSec),
				fmt.Sprintf("%.2f ms", l.P50), fmt.Sprintf("%.1f ms", l.P99), fmt.Sprintf("%.0f ms", l.Max))
		}
		lines = append(lines, line)
	}
	fmt.Fprintln(w)
	_ = report.Columns(w, lines)
	fmt.Fprintln(w, "(two at once: how often, and for how long in total. stuck: the longest. Both in published seconds.)")
}

// writeCache writes the results of the cache guards.
func (r *Report) writeCache(w *strings.Builder) {
	if len(r.Cache) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%d callers at an expired cache entry; a load takes %.1f s (published seconds); and %d, one after the other, when it takes %.1f TTLs\n",
		cacheCallers, cacheLoad, len(slowVisits), slowLoad)
	counted := []string{"loads", "longest wait", "stale", "errors"}
	lines := [][]string{append(append([]string{"guard", "| no value:"}, counted...), append([]string{"| old value kept:"}, counted...)...)}
	lines[0] = append(lines[0], "| slow load:", "loads", "at once", "others' locks freed", "errors")
	for _, c := range r.Cache {
		line := []string{c.Guard}
		for _, n := range []CacheCounts{c.Gone, c.Old} {
			line = append(line, "", fmt.Sprint(n.Loads), fmt.Sprintf("%.1f s", n.LongestWaitMS/r.SecondMS), fmt.Sprint(n.Stale), fmt.Sprint(n.Errors))
		}
		line = append(line, "", fmt.Sprint(c.Slow.Loads), fmt.Sprint(c.Slow.AtOnce), fmt.Sprint(c.Slow.Freed), fmt.Sprint(c.Slow.Errors))
		lines = append(lines, line)
	}
	_ = report.Columns(w, lines)
}
