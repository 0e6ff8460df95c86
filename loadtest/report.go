package loadtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/loadtest/history"
	"roomd/transport/protocol"
)

// Report is the outcome of a run. Its JSON form is a contract that scripts rely on.
type Report struct {
	Nodes    int `json:"nodes"`
	Clients  int `json:"clients"`
	Rooms    int `json:"rooms"`
	Capacity int `json:"capacity"`

	Actions int64 `json:"actions"` // acknowledged, without reads
	Joins   int64 `json:"joins"`
	Leaves  int64 `json:"leaves"`
	Reads   int64 `json:"reads"`
	Refused int64 `json:"refused"` // full rooms, taken seats, conflicts and so on
	Unknown int64 `json:"unknown"` // may or may not have happened
	Errors  int   `json:"errors"`  // failed for no fault of a player
	Events  int64 `json:"events"`  // frames about other players' actions

	ByAction []Outcomes `json:"by_action"` // of each kind that was tried

	Duration      float64 `json:"duration_s"`
	ActionsPerSec float64 `json:"actions_per_s"`
	Latency       Latency `json:"latency_ms"` // of acknowledged actions of players

	Violations history.Counts `json:"violations"`
	Verdict    string         `json:"verdict"` // consistent, or inconsistent

	Details    []string `json:"details,omitempty"`     // the first violations, in words
	ErrorTexts []string `json:"error_texts,omitempty"` // the first errors, and how often

	samples []sample               // over time, for the plot
	curve   []hdrhistogram.Bracket // latency in µs by percentile, for the plot
}

// Outcomes are how the actions of one kind ended.
type Outcomes struct {
	Action    string `json:"action"`
	Done      int64  `json:"done"`
	Refused   int64  `json:"refused"`
	Conflicts int64  `json:"conflicts"` // a compare-and-set that came too late
	Unknown   int64  `json:"unknown"`
}

// Latency is in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// sample is how many actions had been acknowledged at a moment.
type sample struct {
	seconds float64
	actions int64
}

// Consistent reports whether all lists were right.
func (r *Report) Consistent() bool { return r.Verdict == history.Counts{}.Verdict() }

func (g *game) report(elapsed time.Duration) *Report {
	h, v, t := g.latency(), g.ledger.Violations(), g.tally
	ms := func(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }
	r := &Report{
		Nodes: len(g.fleet.urls), Clients: g.cfg.Clients, Rooms: g.cfg.Rooms, Capacity: g.cfg.Capacity,
		Actions: t.actions(), Joins: t.done(protocol.ActionJoin), Leaves: t.done(protocol.ActionLeave), Reads: t.done(protocol.ActionUsers),
		Refused: t.refused(), Unknown: t.unknown(), Events: t.events.Load(),
		ByAction:      t.byAction(),
		Duration:      elapsed.Seconds(),
		ActionsPerSec: float64(t.actions()) / elapsed.Seconds(),
		Latency:       Latency{P50: ms(50), P90: ms(90), P99: ms(99), P999: ms(99.9), Max: float64(h.Max()) / 1000},
		Violations:    v.Counts(),
		Verdict:       v.Verdict(),
		Details:       v.Descriptions(),
		samples:       g.samples,
		curve:         h.CumulativeDistribution(),
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

// byAction returns the outcomes of all kinds of actions that were tried.
func (t *tally) byAction() (all []Outcomes) {
	for _, action := range counted {
		c := t.of[action]
		o := Outcomes{action, c.done.Load(), c.refused.Load(), c.conflicts.Load(), c.unknown.Load()}
		if o.Done+o.Refused+o.Conflicts+o.Unknown > 0 {
			all = append(all, o)
		}
	}
	return all
}
