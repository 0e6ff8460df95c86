package loadtest

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/loadtest/history"
	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
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

	Duration      float64       `json:"duration_s"`
	ActionsPerSec float64       `json:"actions_per_s"`
	Latency       tally.Latency `json:"latency_ms"` // of acknowledged actions of players

	OwnCPU   report.Figure `json:"own_cpu_s"`     // processor time of this process: the players, and nodes that it started
	OwnShare report.Figure `json:"own_cpu_share"` // of the machine's processors

	Violations history.Counts `json:"violations"`
	Verdict    string         `json:"verdict"` // consistent, or inconsistent

	Details    []string `json:"details,omitempty"`     // the first violations, in words
	ErrorTexts []string `json:"error_texts,omitempty"` // the first errors, and how often

	ownNodes bool                   // this process has the nodes, too
	samples  []sample               // over time, for the plot
	curve    []hdrhistogram.Bracket // latency in µs by percentile, for the plot
}

// Outcomes are how the actions of one kind ended.
type Outcomes struct {
	Action string `json:"action"`
	tally.Counts
}

// sample is how many actions had been acknowledged at a moment.
type sample struct {
	seconds float64
	actions int64
}

// Consistent reports whether all lists were right.
func (r *Report) Consistent() bool { return r.Verdict == history.Counts{}.Verdict() }

func (g *game) report(elapsed time.Duration) *Report {
	v, t := g.ledger.Violations(), tally.Sum(g.tallies...)
	all, acted := t.Total(), g.actions()
	r := &Report{
		Nodes: len(g.fleet.urls), Clients: g.cfg.Clients, Rooms: g.cfg.Rooms, Capacity: g.cfg.Capacity,
		Actions: acted, Joins: t.Of(protocol.ActionJoin).Done, Leaves: t.Of(protocol.ActionLeave).Done, Reads: t.Of(protocol.ActionUsers).Done,
		Refused: all.Refused + all.Conflicts, Unknown: all.Unknown,
		ByAction:      byAction(t),
		Duration:      elapsed.Seconds(),
		ActionsPerSec: float64(acted) / elapsed.Seconds(),
		Latency:       t.Latency(),
		OwnCPU:        report.Figure(g.used),
		OwnShare:      report.Figure(g.used / elapsed.Seconds() / float64(runtime.NumCPU())),
		ownNodes:      len(g.fleet.own) > 0,
		Violations:    v.Counts(),
		Verdict:       v.Verdict(),
		Details:       v.Descriptions(),
		samples:       g.samples,
		curve:         t.Curve(),
	}
	for _, p := range g.players {
		r.Events += p.events.Load()
	}
	errs, texts := t.Errors()
	r.Errors = int(errs)
	for text, n := range texts {
		r.ErrorTexts = append(r.ErrorTexts, fmt.Sprintf("%d × %s", n, text))
	}
	slices.Sort(r.ErrorTexts)
	return r
}

// byAction returns the outcomes of all kinds of actions that were tried.
func byAction(t *tally.Tally) (all []Outcomes) {
	for _, p := range plays {
		if c := t.Of(p.name); c != (tally.Counts{}) {
			all = append(all, Outcomes{p.name, c})
		}
	}
	return all
}
