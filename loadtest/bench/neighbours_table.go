package bench

import (
	"fmt"
	"html/template"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"roomd/loadtest/bench/crew"
	"roomd/loadtest/report"
)

func (all *Neighbours) figures() *figures {
	f := &figures{
		name: neighboursName,
		about: fmt.Sprintf("%d players who act once a second, alone and beside an attack by turns, %d rounds each; ms from when an action was due, "+
			"medians of rounds and (least–most); the goal is ×1.5", all.Players, all.Rounds),
		table: report.Table{Columns: []report.Column{
			{Head: ""},
			{Head: "alone", Group: "p50 ms", About: "without the attack"}, {Head: "beside", Group: "p50 ms", About: "during the attack"}, {Head: "×alone", Group: "p50 ms", About: "beside divided by alone"},
			{Head: "alone", Group: "p99 ms", About: "99 of 100 actions took at most so long, without the attack"}, {Head: "rounds", Group: "p99 ms", About: "the least and the most of the rounds"},
			{Head: "beside", Group: "p99 ms", About: "the same during the attack"}, {Head: "rounds", Group: "p99 ms"},
			{Head: "×alone", Group: "p99 ms", About: "beside divided by alone; ! is above the goal"},
			{Head: "late p99", Group: "players", About: "how late the players' own process was in the worst round; near the p99, the machine is too busy to say anything"},
			{Head: "actions", Group: "players"}, {Head: "connections", Group: "attackers", About: "that the attackers opened"}, {Head: "MiB", Group: "attackers", About: "that the attackers sent"},
		}, About: "Latency counts from when an action was due, so a server that stands still for a second is seen by all actions of that second."},
	}
	for _, name := range crew.Attacks() {
		n := all.Attacks[name]
		if n != nil {
			f.table.Rows = append(f.table.Rows, n.row(name))
		}
		remarks := n.wrong()
		if n != nil && len(n.Attack.Ended) > 0 {
			remarks = append(remarks, "the server ended connections of attackers: "+tell(crew.Outcome{Refused: n.Attack.Ended}))
		}
		f.table.Notes = append(f.table.Notes, notes(name, remarks)...)
	}
	return f
}

// ratioColumn is where the ratio of a row is.
const ratioColumn = 8

func (n *Neighbour) row(name string) report.Row {
	row := report.Row{Good: ratioColumn}
	mark := ""
	if n.Ratio > neighbourGoal {
		mark, row.Good, row.Bad = "!", 0, ratioColumn
	}
	row.Cells = []string{name, n.Alone.P50.Text("%.2f"), n.Beside.P50.Text("%.2f"), n.Ratio50.Text("%.2f"),
		n.Alone.P99.Text("%.2f"), n.Alone.spread(), n.Beside.P99.Text("%.2f"), n.Beside.spread(), mark + n.Ratio.Text("%.2f"),
		max(n.Alone.LateP99, n.Beside.LateP99).Text("%.2f"), fmt.Sprint(n.Actions), fmt.Sprint(n.Attack.Connections), n.Attack.MiB.Text("%.3f")}
	return row
}

// spread returns the least and the most of the rounds.
func (r *Rounds) spread() string {
	if len(r.Each) == 0 {
		return ""
	}
	return fmt.Sprintf("(%s–%s)", slices.Min(r.Each).Text("%.1f"), slices.Max(r.Each).Text("%.1f"))
}

// draw returns the 99th percentiles alone and beside each attack as SVG, or nothing if there are
// none.
func (all *Neighbours) draw() (template.HTML, error) {
	if all == nil || len(all.Attacks) == 0 {
		return "", nil
	}
	p := report.NewPlot("99th percentile of players' latency beside an attack", "", "ms")
	p.Subtitle = "less is better"
	p.Y.Min = 0
	names := crew.Attacks()
	alone, beside := make(plotter.Values, len(names)), make(plotter.Values, len(names))
	for i, name := range names {
		if n := all.Attacks[name]; n != nil && n.Ratio.IsKnown() {
			alone[i], beside[i] = float64(n.Alone.P99), float64(n.Beside.P99)
		}
	}
	width := groupWidth / vg.Length(2*len(names))
	for i, bars := range []struct {
		name   string
		values plotter.Values
	}{{"alone", alone}, {"beside", beside}} {
		if err := p.Bars(bars.name, bars.values, width, width*(vg.Length(i)-0.5)); err != nil {
			return "", err
		}
	}
	p.NominalX(names...)
	return p.HTML(chartWidth, report.Height)
}
