package bench

import (
	"fmt"
	"html/template"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"roomd/loadtest/bench/crew"
	"roomd/loadtest/report"
)

func (all *Neighbours) writeTable(out io.Writer) error {
	fmt.Fprintf(out, "\n%s: %d players who act once a second, alone and beside an attack by turns, %d rounds each; ms from when an action was due, "+
		"medians of rounds and (least–most); the goal is ×1.5\n", neighboursName, all.Players, all.Rounds)
	rows := [][]string{{"", "p50 alone", "beside", "×alone", "p99 alone", "", "beside", "", "×alone", "late p99", "actions", "attackers'", "connections", "MiB"}}
	for _, name := range crew.Attacks() {
		n := all.Attacks[name]
		if n == nil {
			continue
		}
		mark := ""
		if n.Ratio > neighbourGoal {
			mark = "!"
		}
		rows = append(rows, []string{name, n.Alone.P50.Text("%.2f"), n.Beside.P50.Text("%.2f"), n.Ratio50.Text("%.2f"),
			n.Alone.P99.Text("%.2f"), n.Alone.spread(), n.Beside.P99.Text("%.2f"), n.Beside.spread(), mark + n.Ratio.Text("%.2f"),
			max(n.Alone.LateP99, n.Beside.LateP99).Text("%.2f"), fmt.Sprint(n.Actions), "", fmt.Sprint(n.Attack.Connections), n.Attack.MiB.Text("%.3f")})
	}
	if err := report.Columns(out, rows); err != nil {
		return err
	}
	for _, name := range crew.Attacks() {
		n := all.Attacks[name]
		remarks := n.wrong()
		if n != nil && len(n.Attack.Ended) > 0 {
			remarks = append(remarks, "the server ended connections of attackers: "+tell(crew.Outcome{Refused: n.Attack.Ended}))
		}
		if err := writeRemarks(out, name, remarks); err != nil {
			return err
		}
	}
	return nil
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
	p := plot.New()
	p.Title.Text, p.Y.Label.Text, p.Y.Min = "99th percentile of players' latency beside an attack (less is better)", "ms", 0
	p.Add(plotter.NewGrid())
	names := crew.Attacks()
	alone, beside := make(plotter.Values, len(names)), make(plotter.Values, len(names))
	for i, name := range names {
		if n := all.Attacks[name]; n != nil && n.Ratio.IsKnown() {
			alone[i], beside[i] = float64(n.Alone.P99), float64(n.Beside.P99)
		}
	}
	const width = groupWidth / 2
	for i, bars := range []struct {
		name   string
		values plotter.Values
	}{{"alone", alone}, {"beside", beside}} {
		chart, err := plotter.NewBarChart(bars.values, width)
		if err != nil {
			return "", err
		}
		chart.Color, chart.LineStyle.Width = plotutil.Color(i), 0
		chart.Offset = width * (vg.Length(i) - 0.5)
		p.Add(chart)
		p.Legend.Add(bars.name, chart)
	}
	p.Legend.Top = true
	p.NominalX(names...)
	return report.SVG(p, chartWidth, report.Height)
}
