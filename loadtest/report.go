package loadtest

import (
	"fmt"
	"runtime"
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

	OwnCPU   report.Figure `json:"own_cpu_s"`     // processor time of this process: the players, and nodes that it started
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
func (r *Report) Consistent() bool { return r.Verdict == Consistent }

// took notes how long players played, and the processor seconds of this process meanwhile.
func (r *Report) took(d time.Duration, used float64) {
	r.Duration = d.Seconds()
	r.OwnCPU, r.OwnShare = report.Figure(used), report.Figure(used/r.Duration/float64(runtime.NumCPU()))
}

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
			if op.Action != check.Read {
				t.Record(op.Return - op.Call)
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
