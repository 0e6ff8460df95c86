package chaos

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/loadtest/audit"
	"roomd/loadtest/check"
	"roomd/loadtest/internal/tally"
)

type checkFault = check.Fault

// The verdicts.
const (
	Consistent   = "consistent"
	Inconsistent = "inconsistent"
	Undecided    = "undecided" // nothing was wrong, and porcupine ran out of time
)

// Report is the outcome of a run. Its JSON form is a contract that scripts rely on.
type Report struct {
	Profile  string  `json:"profile"`
	Persist  string  `json:"persist"`
	Replicas int     `json:"replicas"`
	Nodes    int     `json:"nodes"`
	Clients  int     `json:"clients"`
	Rooms    int     `json:"rooms"`
	Seed     uint64  `json:"seed"`
	Seconds  float64 `json:"seconds"`
	Other    string  `json:"other_version,omitempty"` // that half of the nodes began as
	Repeat   string  `json:"repeat"`                  // the command that makes the same schedule

	Actions int64         `json:"actions"` // acknowledged, without reads
	Refused int64         `json:"refused"`
	Unknown int64         `json:"unknown"`
	Latency tally.Latency `json:"latency_ms"` // of acknowledged actions

	Faults    []FaultReport `json:"faults"`
	Lost      int           `json:"lost_acknowledged"` // actions that Redis was allowed to lose
	SeatsLost int           `json:"seats_lost"`        // told by "lost", and not by an administrator's action
	Ghosts    int           `json:"most_ghosts"`       // members at once whose player was gone

	Witnessed  int `json:"witnessed"`  // operations that the witness judged
	Linearized int `json:"linearized"` // and porcupine
	Commits    int `json:"commits"`    // in the journals
	Epochs     int `json:"new_epochs"`
	Events     int `json:"events"`
	Holds      int `json:"outsider_holds"` // of locks by somebody who is no node

	Feed      FeedReport `json:"feed"`
	Resources []Resource `json:"resources"`

	Violations []string `json:"violations"`
	Undecided  []string `json:"undecided,omitempty"`
	Verdict    string   `json:"verdict"`

	history *check.History
	samples []sample
	used    []use
	marks   []mark
	curve   []hdrhistogram.Bracket
}

// FaultReport is a fault that was injected.
type FaultReport struct {
	Name    string  `json:"name"`
	On      string  `json:"on"`
	From    float64 `json:"from_s"`
	To      float64 `json:"to_s"`
	Recover float64 `json:"recover_s"`         // from its end until all was well; -1: never
	Lost    int     `json:"lost_acknowledged"` // actions
}

// Good reports whether nothing was wrong, and all of it was decided.
func (r *Report) Good() bool { return r.Verdict == Consistent }

// judge ends the run, and judges it.
func (r *run) judge(ctx context.Context) (*Report, error) {
	if len(r.problems) == 0 { // else it may not be possible any more
		if err := r.settle(ctx); err != nil {
			return nil, err
		}
	}
	r.leave(ctx)
	r.feed.arrive(ctx)
	r.feed.close()
	r.takeUse(ctx, true)
	r.enter("the history is judged")
	h := r.history.end()
	h.Halves = r.cfg.Profile == Cluster
	if err := r.journals(ctx, h); err != nil {
		return nil, err
	}
	audited, err := audit.Run(ctx, r.store.client(), audit.Config{Rooms: "*", KeyPrefix: r.cfg.KeyPrefix})
	if err != nil {
		return nil, err
	}
	report := r.report(h)
	report.feedJudged(check.Feed(h, r.feed.heard()), r.feed.receiver.failed)
	report.useJudged(r.used, r.played)
	report.judged(r.problems, audited, check.Witness(h), check.Linearize(h, check.DefaultPatience))
	if report.Actions == 0 {
		return nil, ErrNothingDone
	}
	return report, r.history.flush()
}

// judged adds what the checkers say.
func (r *Report) judged(problems []string, audited *audit.Report, witness, porcupine *check.Verdict) {
	r.Violations = append(r.Violations, problems...)
	for _, v := range append(witness.Violations, porcupine.Violations...) {
		r.Violations = append(r.Violations, v.String())
	}
	for _, f := range audited.Findings {
		r.Violations = append(r.Violations, "audit, "+strings.Join(strings.Fields(f.String()), " "))
	}
	r.Undecided = porcupine.Unsure
	r.Witnessed, r.Linearized, r.Commits, r.Epochs = witness.Judged, porcupine.Judged, audited.Commits, audited.Epochs
	for i, n := range witness.Lost {
		r.Faults[i].Lost = n
		r.Lost += n
	}
	switch {
	case len(r.Violations) > 0:
		r.Verdict = Inconsistent
	case len(r.Undecided) > 0:
		r.Verdict = Undecided
	default:
		r.Verdict = Consistent
	}
}

// report returns what was played.
func (r *run) report(h *check.History) *Report {
	c := r.cfg
	report := &Report{
		Profile: c.Profile, Persist: c.Persist, Replicas: c.Replicas, Nodes: c.Nodes, Clients: c.Clients, Rooms: c.Rooms, Seed: c.Seed,
		Other:   c.OtherVersion,
		Seconds: h.End.Seconds(), Repeat: c.command(), Holds: r.outsider.holds, history: h, samples: r.samples, marks: r.history.marks,
		Events: len(h.Events), Faults: []FaultReport{}, Violations: []string{},
	}
	report.Actions, report.Refused, report.Unknown = r.history.counts()
	latency := new(tally.Tally)
	for _, m := range r.history.marks {
		latency.Record(m.took)
	}
	report.Latency, report.curve = latency.Latency(), latency.Curve()
	for _, f := range h.Faults {
		recovered := -1.0
		if f.Well > 0 {
			recovered = (f.Well - f.To).Seconds()
		}
		report.Faults = append(report.Faults, FaultReport{f.Name, f.On, f.From.Seconds(), f.To.Seconds(), recovered, 0})
	}
	for _, e := range h.Events {
		switch e.Lost {
		case "", "kicked", "closed", "moved", "left":
		default:
			report.SeatsLost++
		}
	}
	for _, s := range r.samples {
		report.Ghosts = max(report.Ghosts, s.ghosts)
	}
	return report
}

// command returns the command that makes the same schedule.
func (c Config) command() string {
	text := fmt.Sprintf("roomload chaos --profile %s --persist %s --replicas %d --nodes %d --clients %d --rooms %d --capacity %d --duration %v --seed %d",
		c.Profile, c.Persist, c.Replicas, c.Nodes, c.Clients, c.Rooms, c.Capacity, c.Duration, c.Seed)
	if c.OtherVersion != "" {
		text += " --update-from " + c.OtherVersion
	}
	if len(c.Faults) > 0 {
		text += " --faults " + strings.Join(c.Faults, ",")
	}
	return text
}

// machine says on what the run ran.
func machine() string { return fmt.Sprintf("%d processors", runtime.NumCPU()) }
