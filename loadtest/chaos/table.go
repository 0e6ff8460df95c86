package chaos

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"roomd/loadtest/check"
	"roomd/loadtest/report"
)

const nameWidth = 11

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	_ = r.played().WriteText(&b, nameWidth)
	faults := r.faults()
	faults.Title = ""
	_ = faults.WriteText(&b)
	_ = r.proved().WriteText(&b, nameWidth)
	if r.Seconds >= judgedFrom.Seconds() {
		b.WriteByte('\n')
		_ = r.resources().WriteText(&b)
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"violations", r.Violations}, {"undecided", r.Undecided}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n  %s\n", list.title, strings.Join(list.lines, "\n  "))
		}
	}
	fmt.Fprintf(&b, "\nrepeat it with\n  %s\n", r.Repeat)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) setup() string {
	return fmt.Sprintf("%s, %s, %d replicas; %d nodes, %d clients, %d rooms, %.0f s, seed %d, %s",
		r.Profile, map[string]string{PersistNone: "no persistence", PersistEverysec: "AOF each second", PersistAlways: "AOF always"}[r.Persist],
		r.Replicas, r.Nodes, r.Clients, r.Rooms, r.Seconds, r.Seed, machine())
}

func (r *Report) played() *report.Facts {
	nodes := "of this version"
	if r.Other != "" {
		nodes += ", and every second one began as " + r.Other
	}
	return &report.Facts{Title: "What was played", Rows: []report.Fact{
		{Name: "setup", Text: r.setup()},
		{Name: "nodes", Text: nodes},
		{Name: "actions", Text: fmt.Sprintf("%d acknowledged, %d refused, %d unknown", r.Actions, r.Refused, r.Unknown),
			About: "Of players and the administrator, without reads. Unknown ones may have happened."},
		{Name: "latency", Text: fmt.Sprintf("p50 %s ms, p99 %s ms, max %s ms", r.Latency.P50.Text("%.1f"), r.Latency.P99.Text("%.0f"), r.Latency.Max.Text("%.0f")),
			About: "Of acknowledged actions, also during faults."},
	}}
}

// faults returns a table of what was injected.
func (r *Report) faults() *report.Table {
	t := &report.Table{
		Title: "Faults", Columns: []report.Column{
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
		t.Rows = append(t.Rows, report.Row{Cells: []string{f.Name, f.On, fmt.Sprintf("%.1f", f.From), fmt.Sprintf("%.1f", f.To-f.From), well, fmt.Sprint(f.Lost)}})
	}
	return t
}

func (r *Report) proved() *report.Facts {
	class := "bad"
	if r.Good() {
		class = "good"
	}
	return &report.Facts{Title: "What was proved", Rows: []report.Fact{
		{Name: "lost", Text: fmt.Sprintf("%d acknowledged actions and %d seats, where that was allowed; %d new epochs", r.Lost, r.SeatsLost, r.Epochs),
			About: "With what Redis writes to its disk, and has on replicas, no more can be promised."},
		{Name: "ghosts", Text: fmt.Sprintf("%d at most, none at the end", r.Ghosts), About: "Members whose player was gone: their seats wait for the grace."},
		{Name: "witness", Text: fmt.Sprintf("%d operations and %d events fit %d commits", r.Witnessed, r.Events, r.Commits), About: "By the journals."},
		{Name: "porcupine", Text: fmt.Sprintf("%d operations have an order", r.Linearized), About: "Without the journals: linearizability of each epoch of each room."},
		{Name: "feed", Text: r.Feed.String(), About: "Commits that each reader of the feed was told, without repetitions: all of them, in order, as the journals have them."},
		{Name: "lock", Text: fmt.Sprintf("%d holds by an outsider were respected", r.Holds), About: "Somebody who is no node took LockRoom:<id>, and nobody wrote meanwhile."},
		{Name: "resources", Text: r.flat(), About: "Memory, goroutines and open files of the nodes, memory and keys of Redis: the last quarter of the run beside the second one."},
		{Name: "violations", Text: fmt.Sprint(len(r.Violations))},
		{Name: "verdict", Text: r.Verdict, Class: class},
	}}
}

// WriteHTML writes the report as one self-contained page.
func (r *Report) WriteHTML(w io.Writer) error {
	played := r.played()
	rate, slowest := r.acknowledged()
	return report.Page{
		Command: "chaos", Question: "What is lost when nodes and Redis fail?", Verdict: r.Verdict, Good: r.Good(), Setup: r.setup(),
		Sections: []report.Section{
			{ID: "proved", Title: "Proof", Parts: []template.HTML{r.proved().HTML(), report.List(r.Violations), report.List(r.Undecided)}},
			{ID: "faults", Title: "Faults", Parts: []template.HTML{r.overTime("Acknowledged actions per second", "", "Where a fault strikes one node, the players of the others go on.", "actions/s", rate), r.ghosts(), r.faults().HTML()}},
			{ID: "actions", Title: "Actions", Parts: []template.HTML{(&report.Facts{Title: played.Title, Rows: played.Rows[1:]}).HTML(), r.overTime("The slowest action", "of each half second, ", "", "ms", slowest),
				report.Latency("Latency", "actions", r.curve)}},
			{ID: "resources", Title: "What is in use", Parts: append(r.resourceCharts(), r.resources().HTML())},
			{ID: "repeat", Title: "Repeat it", About: "The seed makes the same faults, in the same order, for as long.", Parts: []template.HTML{report.List([]string{r.Repeat})}},
		},
	}.Write(w)
}

// mostNames is how many faults charts name.
const mostNames = 40

// spans are the faults, behind the charts.
func (r *Report) spans() (list []report.Span) {
	for _, f := range r.Faults {
		name := f.Name
		if len(r.Faults) > mostNames { // they would hide the lines
			name = ""
		}
		list = append(list, report.Span{From: f.From, To: f.To, Name: name})
	}
	return list
}

// overTime draws lines over the time of the run, with the faults behind them.
func (r *Report) overTime(title, subtitle, about, unit string, lines ...report.Series) template.HTML {
	return report.Chart{
		Title: title, Subtitle: subtitle + "over the time of the run; faults are grey", About: about,
		X: report.Axis{Label: "seconds"}, Y: report.Axis{Label: unit}, Series: lines, Spans: r.spans(),
	}.HTML()
}

const bucket = 500 * time.Millisecond

// acknowledged returns the rate of acknowledged actions, and the slowest of them in milliseconds, of each half of a second.
func (r *Report) acknowledged() (rate, slowest report.Series) {
	for at := time.Duration(0); at <= r.history.End; at += bucket {
		rate.Points = append(rate.Points, report.Point{X: at.Seconds()})
	}
	slowest.Points = slices.Clone(rate.Points)
	for _, op := range r.history.Ops {
		if op.Outcome == check.Done && op.Acts() {
			at := op.Return / bucket
			rate.Points[at].Y += 1 / bucket.Seconds()
			slowest.Points[at].Y = max(slowest.Points[at].Y, (op.Return-op.Call).Seconds()*1000)
		}
	}
	return rate, slowest
}

func (r *Report) ghosts() template.HTML {
	ghosts, members := report.Series{Name: "ghosts", Strong: true}, report.Series{Name: "members"}
	for _, s := range r.samples {
		ghosts.Points = append(ghosts.Points, report.Point{X: s.at.Seconds(), Y: float64(max(0, s.ghosts))})
		members.Points = append(members.Points, report.Point{X: s.at.Seconds(), Y: float64(s.members)})
	}
	return r.overTime("Ghosts", "members of all rooms, and those of them whose player is gone, ",
		"A seat waits for its player for the grace, and after the death of a node until the others have noticed.", "members", ghosts, members)
}
