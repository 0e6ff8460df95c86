package loadtest

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"roomd/loadtest/check"
	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
)

// nameWidth is the width of the first column in a terminal.
const nameWidth = 10

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	_ = r.played().WriteText(&b, nameWidth)
	mix := r.mixed()
	if len(mix.Rows) > 0 {
		var text strings.Builder
		_ = mix.WriteText(&text)
		name := "mix"
		for line := range strings.Lines(text.String()) {
			fmt.Fprintf(&b, "%-*s  %s", nameWidth, name, line)
			name = ""
		}
	}
	ends := report.Facts{Rows: []report.Fact{
		{Name: "processor", Text: r.processor()},
		{Name: "latency", Text: together(latencyFacts(r.Latency))},
		{Name: "judged", Text: r.judged()},
		{Name: "violations", Text: together(violations(r.Violations))},
		{Name: "verdict", Text: r.Verdict},
	}}
	_ = ends.WriteText(&b, nameWidth)
	for _, list := range []struct {
		title string
		lines []string
	}{{"errors", r.ErrorTexts}, {"violations", r.Details}, {"undecided", r.Undecided}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n  %s\n", list.title, strings.Join(list.lines, "\n  "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// together returns facts in one line.
func together(facts []report.Fact) string {
	texts := make([]string, len(facts))
	for i, f := range facts {
		texts[i] = f.Name + " " + f.Text
	}
	return strings.Join(texts, ", ")
}

// judged says by what the run was judged.
func (r *Report) judged() string {
	text := fmt.Sprintf("%d operations by the journals, %d without them", r.Witnessed, r.Linearized)
	if r.Watched > 0 {
		text += fmt.Sprintf("; %d rooms have no whole journal, and what watchers were told stands for it: private data, whispers and bans were not judged there", r.Watched)
	}
	if len(r.Strange) > 0 {
		text += "; changes that no checker knows, and which change nothing for all that they know: " + strings.Join(r.Strange, ", ")
	}
	return text
}

// busy is the share of the machine's processors from which on the players measure themselves.
const busy = 0.5

// processor says what this process used, and whether that was what limited the rate.
func (r *Report) processor() string {
	who, note := "the players' process", ""
	switch {
	case r.ownNodes:
		who = "players and nodes, which are one process (--target tells them apart)"
	case r.OwnShare >= busy:
		note = ": they are the bottleneck, and not the nodes; let them play on another machine"
	}
	return fmt.Sprintf("%s s, %s %% of the machine's, by %s%s", r.OwnCPU.Text("%.1f"), (100 * r.OwnShare).Text("%.0f"), who, note)
}

// played returns what was run, and how much of it there was.
func (r *Report) played() *report.Facts {
	capacity := ""
	if r.Capacity > 0 {
		capacity = fmt.Sprintf(" of %d seats", r.Capacity)
	}
	return &report.Facts{Title: "What was played", Rows: []report.Fact{
		{Name: "setup", Text: fmt.Sprintf("%d clients, %d rooms%s, %d nodes, %.1f s", r.Clients, r.Rooms, capacity, r.Nodes, r.Duration)},
		{Name: "actions", Text: fmt.Sprintf("%d  (%.0f/s; %d joins, %d leaves)", r.Actions, r.ActionsPerSec, r.Joins, r.Leaves),
			About: "Acknowledged actions without reads, and their rate."},
		{Name: "besides", Text: fmt.Sprintf("%d reads, %d refused, %d unknown, %d errors, %d events received", r.Reads, r.Refused, r.Unknown, r.Errors, r.Events),
			About: "Refused requests met full or closed rooms, bans and conflicts, and are no errors. Unknown ones may or may not have happened. Errors failed for no fault of a player. Events are frames about other players' actions."},
	}}
}

// mixed returns what happened besides joins and leaves.
func (r *Report) mixed() *report.Table {
	t := &report.Table{
		Columns: []report.Column{
			{Head: ""}, {Head: "done", About: "acknowledged"}, {Head: "refused", About: "for a reason that the rules of the room give"},
			{Head: "conflicts", About: "compare-and-sets that came too late"}, {Head: "unknown", About: "the server said so, or the connection broke"},
		},
		About: "Half of the players' data expect a version, so that several race for one. host is what only the host may ask for, and who is not the host is refused. What comes behind match is the administrator's.",
	}
	for _, o := range r.ByAction {
		if !slices.ContainsFunc(plays, func(p played) bool { return p.name == o.Action && p.mix == "" }) {
			t.Rows = append(t.Rows, report.Row{Cells: []string{o.Action, fmt.Sprint(o.Done), fmt.Sprint(o.Refused), fmt.Sprint(o.Conflicts), fmt.Sprint(o.Unknown)}})
		}
	}
	return t
}

func latencyFacts(l tally.Latency) []report.Fact {
	ms := func(x report.Figure) string { return x.Text("%.2f ms") }
	return []report.Fact{
		{Name: "p50", Text: ms(l.P50), About: "half of the actions took at most so long"},
		{Name: "p90", Text: ms(l.P90), About: "9 of 10"},
		{Name: "p99", Text: ms(l.P99), About: "99 of 100"},
		{Name: "p99.9", Text: ms(l.P999), About: "999 of 1,000"},
		{Name: "max", Text: ms(l.Max), About: "all of them"},
	}
}

// violations returns how many of each kind there were.
func violations(v check.Counts) (list []report.Fact) {
	for _, k := range check.Kinds {
		class := "good"
		if v[k.Name] > 0 {
			class = "bad"
		}
		list = append(list, report.Fact{Name: strings.ReplaceAll(k.Name, "_", " "), Text: fmt.Sprint(v[k.Name]), About: k.About, Class: class})
	}
	return list
}

// WriteHTML writes the report as one self-contained page: the verdict and its reasons, what was
// played, actions per second over time, and latency by percentile.
func (r *Report) WriteHTML(w io.Writer) error {
	rate, latency := r.rate(), report.Latency("Latency", "actions", r.curve)
	played := r.played()
	mix := r.mixed()
	mix.Title, mix.Subtitle = "Mix", "how the actions besides joins and leaves ended"
	lists := &report.Facts{Rows: violations(r.Violations),
		About: "All replies and events were compared with the rooms' journals, Redis, and every node's answer; and they have an order in which all can have happened."}
	times := &report.Facts{Title: "Percentiles", Rows: latencyFacts(r.Latency), About: "Of acknowledged actions of players, from the request to its reply."}
	return report.Page{
		Command: "run", Question: "Are the lists right under load?", Verdict: r.Verdict, Good: r.Consistent(), Setup: played.Rows[0].Text,
		Sections: []report.Section{
			{ID: "violations", Title: "Violations", About: "What would be wrong, and how often it was seen.",
				Parts: []template.HTML{lists.HTML(), (&report.Facts{Rows: []report.Fact{{Name: "judged", Text: r.judged()}}}).HTML(), report.List(r.Details), report.List(r.Undecided)}},
			{ID: "actions", Title: "Actions", Parts: []template.HTML{(&report.Facts{Title: played.Title, Rows: append(played.Rows[1:],
				report.Fact{Name: "processor", Text: r.processor(), About: "Processor time of the process that has the players."})}).HTML(), mix.HTML(), rate}},
			{ID: "errors", Title: "Errors", About: "Requests and connections that failed for no fault of a player.", Parts: []template.HTML{report.List(r.ErrorTexts)}},
			{ID: "latency", Title: "Latency", Parts: []template.HTML{latency, times.HTML()}},
		},
	}.Write(w)
}

// rate draws the actions per second over time.
func (r *Report) rate() template.HTML {
	var line []report.Point
	before := sample{}
	for _, s := range r.samples {
		if d := s.seconds - before.seconds; d > 0 {
			line = append(line, report.Point{X: s.seconds, Y: float64(s.actions-before.actions) / d})
		}
		before = s
	}
	return report.Chart{
		Title: "Actions per second", Subtitle: "over the time of the run; higher is better",
		About: "Acknowledged actions of all clients together. The first moments are slower, as clients connect and join.",
		X:     report.Axis{Label: "seconds"}, Y: report.Axis{Label: "actions/s"}, Series: []report.Series{{Points: line}},
	}.HTML()
}
