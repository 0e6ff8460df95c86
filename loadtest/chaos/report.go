package chaos

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"runtime"
	"strings"
	"time"

	"roomd/loadtest"
	"roomd/loadtest/audit"
	"roomd/loadtest/check"
	"roomd/loadtest/report"
)

// Report is the result of a run: the report of a run without faults, and the effects of the faults. Its JSON
// form is a contract that scripts rely on.
type Report struct {
	*loadtest.Report

	Profile  string `json:"profile"`
	Persist  string `json:"persist"`
	Replicas int    `json:"replicas"`
	Seed     uint64 `json:"seed"`
	Other    string `json:"other_version,omitempty"` // initial version of half of the nodes
	Repeat   string `json:"repeat"`                  // command that repeats the schedule

	Faults    []FaultReport `json:"faults"`
	Lost      int           `json:"lost_acknowledged"` // acknowledged actions that Redis lost and may have lost
	SeatsLost int           `json:"seats_lost"`        // reported by "lost", not by an administrator's action
	Commits   int           `json:"commits"`           // in the journals
	Epochs    int           `json:"new_epochs"`
	Holds     int           `json:"outsider_holds"` // holds of locks by the outsider

	Feed      FeedReport `json:"feed"`
	Resources []Resource `json:"resources"`

	used []use
}

// FaultReport is an injected fault.
type FaultReport struct {
	Name    string  `json:"name"`
	On      string  `json:"on"`
	From    float64 `json:"from_s"`
	To      float64 `json:"to_s"`
	Recover float64 `json:"recover_s"`         // from its end to recovery; -1: never
	Lost    int     `json:"lost_acknowledged"` // acknowledged actions
}

// emptyWithin is how long it may take until rooms are empty after everybody has left.
const emptyWithin = eviction + grace + 10*time.Second

// judge ends the run, and judges it.
func (r *run) judge(ctx context.Context) (*Report, error) {
	if len(r.Problems()) == 0 { // after problems it may be impossible
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
	c := r.cfg
	report := &Report{
		Profile: c.Profile, Persist: c.Persist, Replicas: c.Replicas, Seed: c.Seed, Other: c.OtherVersion,
		Repeat: c.command(), Commits: audited.Commits, Epochs: audited.Epochs, Holds: r.Holds(),
	}
	fed := check.Feed(h, r.feed.told) // all readers have ended
	found := append(fed.Violations, report.useJudged(r.used, c.Nodes, r.played)...)
	for _, f := range audited.Findings {
		found = append(found, check.Violation{Checker: "audit", Rule: string(f.Rule), Room: f.Room, At: h.End,
			Text: strings.Join(strings.Fields(f.String()), " ")})
	}
	report.Report = r.Judge(h, h.End, found...)
	if report.Actions == 0 {
		return nil, loadtest.ErrNothingDone
	}
	report.Feed = FeedReport{fed.Commits[pageReader], fed.Commits[eventReader], fed.Commits[hookReader], fed.Again,
		fed.Gaps, r.feed.receiver.failed}
	report.played(h)
	report.say()
	return report, nil
}

// played adds the effects of the faults.
func (r *Report) played(h *check.History) {
	r.ErrorTexts = nil // faults cut connections
	for i, f := range h.Faults {
		recovered := -1.0
		if f.Well > 0 {
			recovered = (f.Well - f.To).Seconds()
		}
		r.Faults = append(r.Faults, FaultReport{f.Name, f.On, f.From.Seconds(), f.To.Seconds(), recovered, r.LostBy[i]})
		r.Lost += r.LostBy[i]
	}
	for _, e := range h.Events {
		switch e.Lost {
		case "", "kicked", "closed", "moved", "left":
		default:
			r.SeatsLost++
		}
	}
}

// mostNames limits the faults that charts name.
const mostNames = 40

// say adds facts and tables to the report.
func (r *Report) say() {
	nodes := ""
	if r.Other != "" {
		nodes = ", every second one began as " + r.Other
	}
	r.More = loadtest.Addition{
		Command: "chaos", Question: "What is lost when nodes and Redis fail?", Repeat: []string{r.Repeat},
		Setup: fmt.Sprintf("%s; %s, %s, %d replicas; seed %d, %d processors", nodes, r.Profile,
			map[string]string{PersistNone: "no persistence", PersistEverysec: "AOF each second",
				PersistAlways: "AOF always"}[r.Persist],
			r.Replicas, r.Seed, runtime.NumCPU()),
		Facts: []report.Fact{
			{Name: "lost", Text: fmt.Sprintf("%d acknowledged actions and %d seats, where that was allowed; %d new epochs", r.Lost, r.SeatsLost, r.Epochs),
				About: "With what Redis writes to its disk, and has on replicas, no more can be promised."},
			{Name: "audit", Text: fmt.Sprintf("%d commits in the journals, replayed and compared with Redis",
				r.Commits)},
			{Name: "feed", Text: r.Feed.String(), About: "Commits that each reader of the feed was told, without repetitions: all of them, in order, as the journals have them."},
			{Name: "lock", Text: fmt.Sprintf("%d holds by an outsider were respected", r.Holds),
				About: "Somebody who is no node took LockRoom:<id>, and nobody wrote meanwhile."},
			{Name: "resources", Text: r.flat(), About: "Memory, goroutines and open files of the nodes, memory and keys of Redis: the last quarter of the run beside the second one."},
		},
		Tables: []*report.Table{r.faults()},
	}
	for _, f := range r.Faults {
		name := f.Name
		if len(r.Faults) > mostNames { // so many would hide the lines
			name = ""
		}
		r.More.Spans = append(r.More.Spans, report.Span{From: f.From, To: f.To, Name: name})
	}
	if r.Duration >= judgedFrom.Seconds() {
		r.More.Tables = append(r.More.Tables, r.resources())
	}
	r.More.Sections = []report.Section{
		{ID: "faults", Title: "Faults", Parts: []template.HTML{r.faults().HTML()}},
		{ID: "resources", Title: "What is in use", Parts: append(r.resourceCharts(), r.resources().HTML())},
	}
}

func (r *Report) faults() *report.Table {
	t := &report.Table{
		Title: "Faults", Subtitle: "what was injected", Columns: []report.Column{
			{Head: "fault"}, {Head: "on", Words: true}, {Head: "from s", About: "since the run began"}, {Head: "for s"},
			{Head: "well after s", About: "from its end until each room and each node had acknowledged an action"},
			{Head: "lost", About: "acknowledged actions that Redis was allowed to lose"},
		},
	}
	for _, f := range r.Faults {
		well := fmt.Sprintf("%.1f", f.Recover)
		if f.Recover < 0 {
			well = "never"
		}
		t.Rows = append(t.Rows, report.Row{Cells: []string{f.Name, f.On, fmt.Sprintf("%.1f", f.From),
			fmt.Sprintf("%.1f", f.To-f.From), well, fmt.Sprint(f.Lost)}})
	}
	return t
}

// command returns the command that repeats the schedule.
func (c Config) command() string {
	text := fmt.Sprintf("roomload chaos --profile %s --persist %s --replicas %d --nodes %d --clients %d --rooms %d --capacity %d --duration %v --seed %d --mix %s",
		c.Profile, c.Persist, c.Replicas, c.Nodes, c.Clients, c.Rooms, c.Capacity, c.Duration, c.Seed,
		cmp.Or(strings.Join(c.Mix, ","), "none"))
	if c.OtherVersion != "" {
		text += " --update-from " + c.OtherVersion
	}
	if len(c.Faults) > 0 {
		text += " --faults " + strings.Join(c.Faults, ",")
	}
	return text
}
