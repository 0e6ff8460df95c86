package loadtest

import (
	"fmt"
	"io"
	"strings"

	"roomd/loadtest/history"
	"roomd/loadtest/report"
	"roomd/transport/protocol"
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
		{Name: "latency", Text: together(r.Latency.facts())},
		{Name: "violations", Text: together(violations(r.Violations))},
		{Name: "verdict", Text: r.Verdict},
	}}
	_ = ends.WriteText(&b, nameWidth)
	for _, list := range []struct {
		title string
		lines []string
	}{{"errors", r.ErrorTexts}, {"violations", r.Details}} {
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
		About: "Half of the players' data expect a version, so that several race for one. configure, kick, close, party and move are the administrator's.",
	}
	for _, o := range r.ByAction {
		if o.Action != protocol.ActionJoin && o.Action != protocol.ActionLeave && o.Action != protocol.ActionUsers {
			t.Rows = append(t.Rows, report.Row{Cells: []string{o.Action, fmt.Sprint(o.Done), fmt.Sprint(o.Refused), fmt.Sprint(o.Conflicts), fmt.Sprint(o.Unknown)}})
		}
	}
	return t
}

func (l Latency) facts() []report.Fact {
	ms := func(x float64) string { return fmt.Sprintf("%.2f ms", x) }
	return []report.Fact{
		{Name: "p50", Text: ms(l.P50), About: "half of the actions took at most so long"},
		{Name: "p90", Text: ms(l.P90), About: "9 of 10"},
		{Name: "p99", Text: ms(l.P99), About: "99 of 100"},
		{Name: "p99.9", Text: ms(l.P999), About: "999 of 1,000"},
		{Name: "max", Text: ms(l.Max), About: "all of them"},
	}
}

// violations returns how many of each kind there were.
func violations(v history.Counts) []report.Fact {
	list := []report.Fact{
		{Name: "lost", Text: fmt.Sprint(v.Lost), About: "An acknowledged join, leave or other action is missing, or somebody who was kicked stays."},
		{Name: "phantom", Text: fmt.Sprint(v.Phantom), About: "A user is in the list, or leaves it, and never joined; or something happened that nobody asked for."},
		{Name: "duplicate", Text: fmt.Sprint(v.Duplicate), About: "A user joined twice, or is in the list twice; or somebody got a message twice."},
		{Name: "oversold", Text: fmt.Sprint(v.Oversold), About: "A room has more members than its capacity at that version, or a member on a seat beyond it."},
		{Name: "seat clash", Text: fmt.Sprint(v.SeatClash), About: "Two users have one seat."},
		{Name: "version gap", Text: fmt.Sprint(v.VersionGap), About: "A version was skipped, came twice, or nothing explains it; or the epoch changed."},
		{Name: "diverged", Text: fmt.Sprint(v.Diverged), About: "Two sources contradict each other about one version, or a user was removed and not told."},
		{Name: "intruder", Text: fmt.Sprint(v.Intruder), About: "Somebody came into a closed room, or in spite of a ban."},
		{Name: "torn", Text: fmt.Sprint(v.Torn), About: "A party or a move took place in part."},
		{Name: "conflict", Text: fmt.Sprint(v.Conflict), About: "A compare-and-set replaced what it did not expect, or was refused without a reason."},
	}
	for i := range list {
		list[i].Class = "good"
		if list[i].Text != "0" {
			list[i].Class = "bad"
		}
	}
	return list
}
