package bench

import (
	"html/template"
	"io"
	"slices"

	"roomd/loadtest/report"
)

// WriteHTML writes the report as one self-contained page: actions per second and
// the 99th percentile of latency by workload and contender, and the tables.
func (r *Report) WriteHTML(w io.Writer) error {
	page := report.Page{
		Command: "bench", Question: "How fast is roomd beside other ways to do the same?",
		Verdict: "all lists right", Good: true, Setup: r.setup(),
	}
	if wrong := r.wrong(); len(wrong) > 0 {
		page.Verdict, page.Good, page.Problems = "wrong lists or failed actions", false, wrong
	}
	charts := r.charts()
	if len(charts) > 0 {
		var meanings []report.Fact
		for _, c := range contenders {
			meanings = append(meanings, report.Fact{Name: c.name, Text: c.about})
		}
		charts = append(charts, report.Meanings("What the contenders do", meanings))
	}
	var tables []template.HTML
	for _, w := range workloads {
		if results := r.Workloads[w.name]; results != nil {
			tables = append(tables, tableOf(w, results).html())
		}
	}
	if len(tables) > 0 {
		tables = append([]template.HTML{(&report.Table{Columns: workloads[0].columns()}).Meanings()}, tables...)
	}
	page.Sections = []report.Section{
		{ID: "compared", Title: "Contenders compared", Parts: charts,
			About: "Clients join and leave their rooms over and over. Compare figures only within one run: they move by a quarter from run to run."},
		{ID: "figures", Title: "All figures", Parts: tables, About: "One table for each workload; the row of roomd is marked."},
	}
	for _, part := range r.parts() {
		f := part.figures()
		page.Sections = append(page.Sections, report.Section{ID: f.name, Title: titleOf(f.name), Parts: []template.HTML{f.html()}})
	}
	return page.Write(w)
}

// titleOf returns the heading of a workload that compares no contenders.
func titleOf(name string) string {
	return specials[slices.IndexFunc(specials, func(s special) bool { return s.name == name })].title
}

// charts returns the charts that compare the contenders, those for rooms and those for locks.
func (r *Report) charts() (list []template.HTML) {
	for _, locks := range []bool{false, true} {
		rate := "Actions per second"
		if locks {
			rate = "Holds per second"
		}
		list = append(list,
			r.chart(rate, "by workload; more is better", locks, func(r *Result) report.Figure { return r.ActionsPerSec }),
			r.chart("99th percentile of latency, ms", "by workload; less is better", locks, func(r *Result) report.Figure { return r.Latency.P99 }))
	}
	return slices.DeleteFunc(list, func(part template.HTML) bool { return part == "" })
}

// chart shows one figure of all results on a logarithmic axis. The contenders' bars are side by side for each
// workload.
func (r *Report) chart(title, subtitle string, locks bool, of func(*Result) report.Figure) template.HTML {
	c := report.Chart{
		Title: title, Subtitle: subtitle,
		About: "The scale is logarithmic. A missing bar is a figure that is not known.",
		Y:     report.Axis{Log: true},
	}
	series := make(map[string]*report.Series)
	for _, w := range workloads {
		if w.locks != locks || len(r.Workloads[w.name]) == 0 {
			continue
		}
		for name, result := range r.Workloads[w.name] {
			if series[name] == nil {
				series[name] = &report.Series{Name: name, Strong: name == roomdName}
			}
			if f := of(result); f.IsKnown() && f > 0 {
				series[name].Points = append(series[name].Points, report.Point{X: float64(len(c.X.Categories)), Y: float64(f)})
			}
		}
		c.X.Categories = append(c.X.Categories, w.name)
	}
	for _, contender := range contenders {
		if s := series[contender.name]; s != nil {
			c.Series = append(c.Series, *s)
		}
	}
	return c.HTML()
}

// html returns the figures for a page.
func (f *figures) html() template.HTML {
	table := f.table
	table.Title, table.Subtitle = f.name, f.about
	return f.facts.HTML() + table.HTML()
}
