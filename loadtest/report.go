package loadtest

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"roomd/loadtest/history"
)

// Report is what came of a run. Its JSON form is a contract that scripts rely on.
type Report struct {
	Nodes    int `json:"nodes"`
	Clients  int `json:"clients"`
	Rooms    int `json:"rooms"`
	Capacity int `json:"capacity"`

	Actions int64 `json:"actions"` // acknowledged joins and leaves
	Joins   int64 `json:"joins"`
	Leaves  int64 `json:"leaves"`
	Reads   int64 `json:"reads"`
	Refused int64 `json:"refused"` // full rooms and taken seats
	Unknown int64 `json:"unknown"` // may or may not have happened
	Errors  int   `json:"errors"`  // ended in a way that no player caused
	Events  int64 `json:"events"`  // frames that told players of others' actions

	Duration      float64 `json:"duration_s"`
	ActionsPerSec float64 `json:"actions_per_s"`
	Latency       Latency `json:"latency_ms"` // of acknowledged joins and leaves

	Violations history.Counts `json:"violations"`
	Verdict    string         `json:"verdict"` // consistent, or inconsistent

	Details    []string `json:"details,omitempty"`     // the first violations, in words
	ErrorTexts []string `json:"error_texts,omitempty"` // the first errors, and how often

	Samples []Sample `json:"-"` // over time, for the plot
	Curve   []Point  `json:"-"` // latency by percentile, for the plot
}

// Latency is in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Sample is how many actions had been acknowledged at a moment.
type Sample struct {
	Seconds float64
	Actions int64
}

// Point says which share of the actions, in percent, took at most that long.
type Point struct{ Percent, Milliseconds float64 }

// Consistent reports whether the lists were right.
func (r *Report) Consistent() bool { return r.Verdict == history.Counts{}.Verdict() }

func (g *game) report(elapsed time.Duration) *Report {
	h, v, t := g.latency(), g.ledger.Violations(), g.tally
	ms := func(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }
	r := &Report{
		Nodes: len(g.fleet.urls), Clients: g.cfg.Clients, Rooms: g.cfg.Rooms, Capacity: g.cfg.Capacity,
		Actions: t.actions(), Joins: t.joins.Load(), Leaves: t.leaves.Load(), Reads: t.reads.Load(),
		Refused: t.refused.Load(), Unknown: t.unknown.Load(), Events: t.events.Load(),
		Duration:      elapsed.Seconds(),
		ActionsPerSec: float64(t.actions()) / elapsed.Seconds(),
		Latency:       Latency{P50: ms(50), P90: ms(90), P99: ms(99), P999: ms(99.9), Max: float64(h.Max()) / 1000},
		Violations:    v.Counts(),
		Verdict:       v.Verdict(),
		Details:       v.Descriptions(),
		Samples:       g.samples,
	}
	for _, b := range h.CumulativeDistribution() {
		r.Curve = append(r.Curve, Point{b.Quantile, float64(b.ValueAt) / 1000})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Errors = t.errors
	for text, n := range t.texts {
		r.ErrorTexts = append(r.ErrorTexts, fmt.Sprintf("%d × %s", n, text))
	}
	slices.Sort(r.ErrorTexts)
	return r
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	capacity := ""
	if r.Capacity > 0 {
		capacity = fmt.Sprintf(" of %d seats", r.Capacity)
	}
	fmt.Fprintf(t, "setup\t%d clients, %d rooms%s, %d nodes, %.1f s\n", r.Clients, r.Rooms, capacity, r.Nodes, r.Duration)
	fmt.Fprintf(t, "actions\t%d  (%.0f/s; %d joins, %d leaves)\n", r.Actions, r.ActionsPerSec, r.Joins, r.Leaves)
	fmt.Fprintf(t, "besides\t%d reads, %d refused, %d unknown, %d errors, %d events told\n", r.Reads, r.Refused, r.Unknown, r.Errors, r.Events)
	l := r.Latency
	fmt.Fprintf(t, "latency\tp50 %.2f ms, p90 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms\n", l.P50, l.P90, l.P99, l.P999, l.Max)
	v := r.Violations
	fmt.Fprintf(t, "violations\tlost %d, phantom %d, duplicate %d, oversold %d, seat clash %d, version gap %d, diverged %d\n",
		v.Lost, v.Phantom, v.Duplicate, v.Oversold, v.SeatClash, v.VersionGap, v.Diverged)
	fmt.Fprintf(t, "verdict\t%s\n", r.Verdict)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"errors", r.ErrorTexts}, {"violations", r.Details}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(w, "\n%s:\n", list.title)
		}
		for _, line := range list.lines {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	return nil
}
