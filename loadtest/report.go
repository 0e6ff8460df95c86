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

// Report is the result of a run. Its JSON form is a contract that scripts rely on.
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
	Unknown int64 `json:"unknown"` // possibly executed
	Errors  int   `json:"errors"`  // caused by no player
	Events  int64 `json:"events"`  // frames about other players' actions

	ByAction []Outcomes `json:"by_action"` // only kinds that were tried

	Duration      float64       `json:"duration_s"`
	ActionsPerSec float64       `json:"actions_per_s"`
	Latency       tally.Latency `json:"latency_ms"` // of players' acknowledged actions

	// processor time of this process: players, and nodes that it started; not with faults
	OwnCPU   report.Figure `json:"own_cpu_s"`
	OwnShare report.Figure `json:"own_cpu_share"` // of the machine's processors

	Witnessed  int `json:"witnessed"`        // operations judged by the journals
	Linearized int `json:"linearized"`       // operations judged without them
	Watched    int `json:"watched_journals"` // rooms in which events to watchers replaced the journal

	Violations check.Counts `json:"violations"`
	Verdict    string       `json:"verdict"` // consistent, inconsistent or undecided

	Details    []string `json:"details,omitempty"`         // descriptions of the first violations
	Undecided  []string `json:"undecided,omitempty"`       // what could not be decided
	Strange    []string `json:"unknown_changes,omitempty"` // kinds of changes that the checkers do not know
	ErrorTexts []string `json:"error_texts,omitempty"`     // the first errors, with their numbers

	// With faults: the number of acknowledged actions that each made Redis lose, and additions to the report.
	LostBy map[int]int `json:"-"` // by the index of the fault
	More   Addition    `json:"-"`

	ownNodes      bool                   // the nodes are in this process, too
	curve         []hdrhistogram.Bracket // latency in µs by percentile, for the chart
	rate, slowest report.Series          // of actions over time
}

// Addition is what faults add to the report of a game.
type Addition struct {
	Command, Question, Setup string
	Spans                    []report.Span    // in the background of charts
	Facts                    []report.Fact    // facts about the proof
	Tables                   []*report.Table  // for a terminal
	Sections                 []report.Section // of the page
	Repeat                   string           // command that repeats the run
}

// Outcomes are the outcomes of the actions of one kind.
type Outcomes struct {
	Action string `json:"action"`
	tally.Counts
}

// Consistent reports whether nothing was wrong or undecided.
func (r *Report) Consistent() bool { return r.Verdict == Consistent }

// Judge returns the report of a game that lasted for played. found has violations that others have found.
func (g *Game) Judge(h *check.History, played time.Duration, found ...check.Violation) *Report {
	r := &Report{Nodes: len(g.cfg.Nodes), Clients: g.cfg.Clients, Rooms: g.cfg.Rooms, Capacity: g.cfg.Capacity,
		Duration: played.Seconds()}
	r.Actions, r.Refused, r.Unknown = g.History.Counts()
	r.count(h, &g.errors)
	defer debug.SetGCPercent(debug.SetGCPercent(30)) // most of the memory is the history, which does not grow any more
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

// bucket is the interval of a point in a chart.
const bucket = 500 * time.Millisecond

// count fills in the numbers of actions.
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
