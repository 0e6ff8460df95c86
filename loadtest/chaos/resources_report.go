package chaos

import (
	"fmt"
	"html/template"
	"time"

	"roomd/loadtest/report"
)

// flat says in a few words whether what is in use rises.
func (r *Report) flat() string {
	rises := 0
	judged := 0
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

// resources returns a table of what is in use.
func (r *Report) resources() *report.Table {
	t := &report.Table{
		Title: "What is in use", Columns: []report.Column{
			{Head: "figure", Words: true}, {Head: "second quarter", About: "the median of the run's second quarter"}, {Head: "last quarter"},
			{Head: "end", About: "when everybody had left"}, {Head: "at most", About: "what the last quarter may have: a quarter more than the second one, and a little"},
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
		t.Rows = append(t.Rows, report.Row{Cells: []string{q.Name, fmt.Sprintf("%.1f", q.Second), fmt.Sprintf("%.1f", q.Last), fmt.Sprintf("%.1f", q.End), bound}})
	}
	return t
}

// resourceCharts draws what is in use over time.
func (r *Report) resourceCharts() (charts []template.HTML) {
	draw := func(title, about, unit string, names map[string]string, order []string) {
		c := report.Chart{
			Title: title, Subtitle: "over the time of the run; faults are grey", About: about,
			X: report.Axis{Label: "seconds"}, Y: report.Axis{Label: unit}, Spans: r.spans(),
		}
		for _, label := range order {
			s := report.Series{Name: label}
			for _, u := range r.used {
				if value, is := u.values[names[label]]; is {
					s.Points = append(s.Points, report.Point{X: u.at.Round(time.Millisecond).Seconds(), Y: value})
				}
			}
			c.Series = append(c.Series, s)
		}
		charts = append(charts, c.HTML())
	}
	ofNodes := func(title, figure, unit string) {
		names, order := make(map[string]string), []string(nil)
		for i := range r.Nodes {
			label := fmt.Sprintf("node %d", i+1)
			names[label], order = nameOf(i+1, figure), append(order, label)
		}
		draw(title, "A node that was killed begins anew.", unit, names, order)
	}
	one := func(title, figure, unit, about string) {
		draw(title, about, unit, map[string]string{figure: figure}, []string{figure})
	}
	ofNodes("Resident memory of the nodes", resident, "MiB")
	ofNodes("Goroutines of the nodes", goroutines, "goroutines")
	ofNodes("Open files of the nodes", openFiles, "files")
	one("Memory of Redis", redisMemory, "MiB", "Of all primaries. The journals and the feed keep all commits of a run, so it grows with them.")
	one("Memory of Redis for each commit", perCommit, "bytes", "What does not grow with commits shows at the beginning.")
	one("Keys of Redis", redisKeys, "keys", "A room that is empty is kept for an hour.")
	return charts
}
