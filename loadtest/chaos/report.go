package chaos

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/loadtest"
	"roomd/loadtest/audit"
	"roomd/loadtest/check"
	"roomd/loadtest/internal/tally"
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
	Strange    []string `json:"unknown_changes,omitempty"` // kinds of changes that the checkers do not know
	Verdict    string   `json:"verdict"`                   // as of loadtest.Report

	history *check.History
	samples []sample
	used    []use
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
func (r *Report) Good() bool { return r.Verdict == loadtest.Consistent }

// judge ends the run, and judges it.
func (r *run) judge(ctx context.Context) (*Report, error) {
	if len(r.Problems()) == 0 { // else it may not be possible any more
		r.enter("nobody acts: events arrive")
		if err := r.Settle(ctx, r.cfg.Recover); err != nil {
			return nil, err
		}
	}
	r.enter("everybody leaves")
	r.Leave(ctx, emptyWithin)
	r.feed.arrive(ctx)
	r.feed.close()
	r.takeUse(ctx, true)
	r.enter("the history is judged")
	h, err := r.End(ctx)
	if err != nil {
		return nil, err
	}
	audited, err := audit.Run(ctx, r.data.Client, audit.Config{Rooms: "*", KeyPrefix: r.cfg.KeyPrefix})
	if err != nil {
		return nil, err
	}
	report := r.report(h)
	report.feedJudged(check.Feed(h, r.feed.heard()), r.feed.receiver.failed)
	report.useJudged(r.used, r.played)
	report.judged(r.Problems(), audited, check.Witness(h), check.Linearize(h, check.DefaultPatience))
	if report.Actions == 0 {
		return nil, loadtest.ErrNothingDone
	}
	return report, nil
}

// judged adds what the checkers say.
func (r *Report) judged(problems []check.Violation, audited *audit.Report, witness, porcupine *check.Verdict) {
	for _, v := range slices.Concat(problems, witness.Violations, porcupine.Violations) {
		r.Violations = append(r.Violations, v.String())
	}
	for _, f := range audited.Findings {
		r.Violations = append(r.Violations, "audit, "+strings.Join(strings.Fields(f.String()), " "))
	}
	r.Undecided, r.Strange = append(witness.Unsure, porcupine.Unsure...), witness.Strange
	r.Witnessed, r.Linearized, r.Commits, r.Epochs = witness.Judged, porcupine.Judged, audited.Commits, audited.Epochs
	for i, n := range witness.Lost {
		r.Faults[i].Lost = n
		r.Lost += n
	}
	r.Verdict = loadtest.Verdict(len(r.Violations), len(r.Undecided))
}

// report returns what was played.
func (r *run) report(h *check.History) *Report {
	c := r.cfg
	report := &Report{
		Profile: c.Profile, Persist: c.Persist, Replicas: c.Replicas, Nodes: c.Nodes, Clients: c.Clients, Rooms: c.Rooms, Seed: c.Seed,
		Other:   c.OtherVersion,
		Seconds: h.End.Seconds(), Repeat: c.command(), Holds: r.Holds(), history: h, samples: r.samples,
		Events: len(h.Events), Faults: []FaultReport{}, Violations: []string{},
	}
	report.Actions, report.Refused, report.Unknown = r.History.Counts()
	latency := new(tally.Tally)
	for _, op := range h.Ops {
		if op.Outcome == check.Done && op.Acts() {
			latency.Record(op.Return - op.Call)
		}
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
	switch {
	case len(c.Mix) == 0:
		text += " --mix none"
	case len(c.Mix) < len(loadtest.MixNames):
		text += " --mix " + strings.Join(c.Mix, ",")
	}
	if len(c.Faults) > 0 {
		text += " --faults " + strings.Join(c.Faults, ",")
	}
	return text
}

// machine says on what the run ran.
func machine() string { return fmt.Sprintf("%d processors", runtime.NumCPU()) }
