package loadtest

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/loadtest/check"
	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
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

	// processor time of this process: the players, and nodes that it started; not with faults
	OwnCPU   report.Figure `json:"own_cpu_s"`
	OwnShare report.Figure `json:"own_cpu_share"` // of the machine's processors

	Witnessed  int `json:"witnessed"`        // operations that were judged by the journals
	Linearized int `json:"linearized"`       // and without them
	Watched    int `json:"watched_journals"` // of rooms without a journal: what watchers were told stood for it

	Violations check.Counts `json:"violations"`
	Verdict    string       `json:"verdict"` // consistent, inconsistent or undecided

	Details    []string `json:"details,omitempty"`         // the first violations, in words
	Undecided  []string `json:"undecided,omitempty"`       // what could not be decided
	Strange    []string `json:"unknown_changes,omitempty"` // kinds of changes that the checkers do not know
	ErrorTexts []string `json:"error_texts,omitempty"`     // the first errors, and how often

	// With faults: how many acknowledged actions each of them had Redis lose, and what the report says besides.
	LostBy map[int]int `json:"-"` // by the index of the fault
	More   Addition    `json:"-"`

	ownNodes      bool                   // this process has the nodes, too
	curve         []hdrhistogram.Bracket // latency in µs by percentile, for the plot
	rate, slowest report.Series          // of actions, over time
}

// Addition is what the report of a game with faults says besides.
type Addition struct {
	Command, Question, Setup string
	Spans                    []report.Span    // behind the charts
	Facts                    []report.Fact    // of what was proved
	Tables                   []*report.Table  // for a terminal
	Sections                 []report.Section // of the page
	Repeat                   string           // the command that does it again
}

// Outcomes are how the actions of one kind ended.
type Outcomes struct {
	Action string `json:"action"`
	tally.Counts
}

// Consistent reports whether nothing was wrong, and all of it was decided.
func (r *Report) Consistent() bool { return r.Verdict == Consistent }

// Judge returns the report of a game that was played for so long. Whatever else was found is a violation, too.
func (g *Game) Judge(h *check.History, played time.Duration, found ...check.Violation) *Report {
	r := &Report{Nodes: len(g.cfg.Nodes), Clients: g.cfg.Clients, Rooms: g.cfg.Rooms, Capacity: g.cfg.Capacity,
		Duration: played.Seconds()}
	r.Actions, r.Refused, r.Unknown = g.History.Counts()
	r.count(h, &g.errors)
	defer debug.SetGCPercent(debug.SetGCPercent(30)) // the history is most of the memory, and nothing more comes
	witness, porcupine := check.Witness(h), check.Linearize(h, check.DefaultPatience)
	all := slices.Concat(g.Problems(), found, witness.Violations, porcupine.Violations)
	r.Violations = check.Count(all)
	for _, v := range all {
		r.Details = append(r.Details, v.String())
	}
	r.Undecided = append(witness.Unsure, porcupine.Unsure...)
	r.Witnessed, r.Linearized, r.Watched = witness.Judged, porcupine.Judged, witness.Watched
	r.Strange, r.LostBy = witness.Strange, witness.Lost
	switch {
	case len(all) > 0:
		r.Verdict = Inconsistent
	case len(r.Undecided) > 0:
		r.Verdict = Undecided
	default:
		r.Verdict = Consistent
	}
	return r
}

// bucket is for how long actions are one point of a chart.
const bucket = 500 * time.Millisecond

// count counts what was played.
func (r *Report) count(h *check.History, failed *tally.Tally) {
	t := new(tally.Tally)
	for _, op := range h.Ops {
		if op.Part || op.Process == storeProcess {
			continue
		}
		name := countedAs(op)
		switch {
		case op.Outcome == check.Done:
			t.Count(name, tally.Done)
			if op.Acts() {
				at, took := int(op.Return/bucket), op.Return-op.Call
				t.Record(took)
				for n := len(r.rate.Points); n <= at; n++ {
					first := report.Point{X: (time.Duration(n) * bucket).Seconds()}
					r.rate.Points, r.slowest.Points = append(r.rate.Points, first), append(r.slowest.Points, first)
				}
				r.rate.Points[at].Y += 1 / bucket.Seconds()
				r.slowest.Points[at].Y = max(r.slowest.Points[at].Y, took.Seconds()*1000)
			}
		case op.Outcome == check.Unknown:
			t.Count(name, tally.Unknown)
		case op.Code == "conflict":
			t.Count(name, tally.Conflict)
		default:
			t.Count(name, tally.Refused)
		}
	}
	r.Joins, r.Leaves, r.Reads = t.Of(check.Join).Done, t.Of(check.Leave).Done, t.Of(check.Read).Done
	r.ByAction, r.ActionsPerSec = byAction(t), float64(r.Actions)/r.Duration
	r.Latency, r.curve = t.Latency(), t.Curve()
	for i := range h.Events {
		if e := &h.Events[i]; !e.Reply && !h.Conns[e.Conn].Watches {
			r.Events++
		}
	}
	errs, texts := failed.Errors()
	r.Errors = int(errs)
	for text, n := range texts {
		r.ErrorTexts = append(r.ErrorTexts, fmt.Sprintf("%d × %s", n, text))
	}
	slices.Sort(r.ErrorTexts)
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
