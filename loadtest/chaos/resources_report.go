package chaos

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"roomd/loadtest/report"
)

// flat summarizes whether resources rise.
func (r *Report) flat() string {
	rises, judged := 0, 0
	for _, q := range r.Resources {
		if q.Bound > 0 {
			judged++
		}
		if q.Rises {
			rises++
		}
	}
	switch {
	case judged == 0:
		return fmt.Sprintf("the run is too short to say whether anything rises; from %v on it is judged", judgedFrom)
	case rises > 0:
		return fmt.Sprintf("%d of %d figures rise", rises, judged)
	}
	return fmt.Sprintf("flat: none of %d figures rises", judged)
}

// resources returns a table of the resources.
func (r *Report) resources() *report.Table {
	t := &report.Table{
		Title: "What is in use", Columns: []report.Column{
			{Head: "figure", Words: true}, {Head: "second quarter", About: "the median of the run's second quarter"},
			{Head: "last quarter"},
			{Head: "end", About: "when everybody had left"}, {Head: "at most",
				About: "what the last quarter may have: a quarter more than the second one, and a little"},
		},
	}
	for _, q := range r.Resources {
		bound := "–"
		if q.Bound > 0 {
			bound = fmt.Sprintf("%.1f", q.Bound)
		}
		if q.Rises {
			bound += ": it rises"
		}
		t.Rows = append(t.Rows, report.Row{Cells: []string{q.Name, fmt.Sprintf("%.1f", q.Second),
			fmt.Sprintf("%.1f", q.Last), fmt.Sprintf("%.1f", q.End), bound}})
	}
	return t
}

// resourceCharts draws the resources over time.
func (r *Report) resourceCharts() (charts []template.HTML) {
	for _, f := range figures {
		if f.unit == "" {
			continue
		}
		var lines []report.Series
		for _, name := range f.names(r.Nodes) {
			label, _, _ := strings.Cut(name, ", ")
			s := report.Series{Name: label}
			for _, u := range r.used {
				if value, is := u.values[name]; is {
					s.Points = append(s.Points, report.Point{X: u.at.Round(time.Millisecond).Seconds(), Y: value})
				}
			}
			lines = append(lines, s)
		}
		title := f.name
		if f.metric != "" {
			title = "nodes: " + title
		}
		charts = append(charts, r.OverTime(title, "", f.about, f.unit, lines...))
	}
	return charts
}
