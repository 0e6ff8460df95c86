package bench

import (
	"fmt"
	"html/template"
	"io"

	"roomd/loadtest/report"
)

// column is a figure of a result.
type column struct {
	head, about, format string
	of                  func(*Result) report.Figure
}

// columns returns the figures that the workload has.
func (w workload) columns() (list []column) {
	if w.kind == ofMemory {
		return []column{
			{"resident", "KiB for each connection that the system counts, which an operator sees; less is better",
				"%.1f", func(r *Result) report.Figure { return r.Memory.Resident }},
			{"freed", "the same after a collection that gives unused memory back", "%.1f",
				func(r *Result) report.Figure { return r.Memory.Freed }},
			{"heap", "KiB for each connection in use by values of Go then", "%.1f",
				func(r *Result) report.Figure { return r.Memory.Heap }},
			{"stacks", "KiB for each connection in use by goroutines' stacks then", "%.1f",
				func(r *Result) report.Figure { return r.Memory.Stack }},
			{"goroutines", "for each connection", "%.2f", func(r *Result) report.Figure { return r.Memory.Goroutines }},
			{"before MiB", "resident, freed, before the clients came; the other figures are differences to before",
				"%.1f", func(r *Result) report.Figure { return r.Memory.Before }},
			{"connections", "clients of the server", "%.0f",
				func(r *Result) report.Figure { return report.Figure(r.Memory.Connections) }},
		}
	}
	rate := column{"actions/s", "acknowledged joins and leaves per second, after a warm-up; more is better", "%.0f",
		func(r *Result) report.Figure { return r.ActionsPerSec }}
	if w.kind == ofLocks {
		rate.head, rate.about = "holds/s", "locks taken and given back per second, after a warm-up; more is better"
	}
	list = append(list, rate)
	for _, name := range w.references() {
		list = append(list, column{"×" + name, rate.head + " divided by those of " + name, "%.2f",
			func(r *Result) report.Figure { return r.to(name).ActionsPerSec }})
	}
	list = append(list,
		column{"p50 ms", "half of the actions took at most so long; actions still under way at the end count, too",
			"%.2f", func(r *Result) report.Figure { return r.Latency.P50 }},
		column{"p99 ms", "99 of 100 actions took at most so long; less is better", "%.2f",
			func(r *Result) report.Figure { return r.Latency.P99 }})
	for _, name := range w.references() {
		list = append(list, column{"p99×" + name, "p99 divided by that of " + name, "%.3f",
			func(r *Result) report.Figure { return r.to(name).P99 }})
	}
	list = append(list,
		column{"p99.9 ms", "999 of 1,000 actions took at most so long", "%.2f",
			func(r *Result) report.Figure { return r.Latency.P999 }},
		column{"max ms", "the longest action", "%.1f", func(r *Result) report.Figure { return r.Latency.Max }})
	if w.kind == ofSockets {
		list = append(list, column{"events/s", "frames per second about other clients' actions", "%.0f",
			func(r *Result) report.Figure { return r.Events }})
	}
	return append(list,
		column{"commands", "commands of Redis for an action, including those in scripts", "%.2f",
			func(r *Result) report.Figure { return r.Commands }},
		column{"reads", "reads of Redis from sockets for an action, about the round trips", "%.2f",
			func(r *Result) report.Figure { return r.Reads }},
		column{"redis µs", "processor time of Redis for an action", "%.1f",
			func(r *Result) report.Figure { return r.RedisCPU }},
		column{"own µs", "processor time of nodes and clients, which are one process, for an action", "%.1f",
			func(r *Result) report.Figure { return r.OwnCPU }},
		column{"Jain", "fairness: 1 if all clients had the same number of actions, 1/n if one of n had all", "%.2f",
			func(r *Result) report.Figure { return r.Jain }},
		column{"allocs", "allocations of nodes and clients for an action", "%.1f",
			func(r *Result) report.Figure { return r.Allocs }})
}

// to returns the ratio to the contender name.
func (r *Result) to(name string) Ratio {
	if ratio, ok := r.To[name]; ok {
		return ratio
	}
	return Ratio{unknown, unknown}
}

func (r *Report) table(w workload) *report.Table {
	columns := w.columns()
	t := &report.Table{ID: w.name, Title: w.name, Subtitle: w.about, Columns: []report.Column{{}}, Plain: true}
	for _, c := range columns {
		t.Columns = append(t.Columns, report.Column{Head: c.head, About: c.about})
	}
	for _, who := range contenders {
		result := r.Workloads[w.name][who.name]
		if result == nil {
			continue
		}
		cells := []string{who.name}
		for _, c := range columns {
			figure := unknown
			if w.kind != ofMemory || result.Memory != nil {
				figure = c.of(result)
			}
			cells = append(cells, figure.Text(c.format))
		}
		t.Rows = append(t.Rows, report.Row{Strong: who.name == roomdName || who.name == lockmgrName, Cells: cells})
		for _, remark := range result.remarks() {
			t.Notes = append(t.Notes, who.name+": "+remark)
		}
	}
	return t
}

// writeTable writes the results of one workload, and explains new columns.
func (r *Report) writeTable(out io.Writer, w workload, explained map[string]bool) error {
	t := r.table(w)
	_, err := fmt.Fprint(out, "\n", t.Text(), t.News(explained))
	return err
}

// WriteHTML writes the report as one self-contained page: actions per second and the 99th percentile of latency
// by workload and contender, and the tables.
func (r *Report) WriteHTML(w io.Writer) error {
	page := report.Page{
		Command: "bench", Question: "How fast is roomd beside other ways to do the same?",
		Verdict: "all lists right", Good: true, Setup: r.setup(),
	}
	if wrong := r.wrong(); len(wrong) > 0 {
		page.Verdict, page.Good, page.Problems = "wrong lists or failed actions", false, wrong
	}
	for k, title := range []string{ofRooms: "Rooms", ofLocks: "Locks", ofSockets: "The whole path: WebSockets",
		ofMemory: "What a connection costs"} {
		if parts := r.parts(kind(k)); len(parts) > 0 {
			page.Sections = append(page.Sections, report.Section{ID: fmt.Sprint("kind-", k), Title: title, Parts: parts,
				About: "Compare figures only within one run: they move by a quarter from run to run."})
		}
	}
	page.Sections = append(page.Sections, report.Section{ID: "contenders", Title: "Contenders",
		Parts: []template.HTML{report.Meanings("What they do", Contenders())}})
	return page.Write(w)
}

// parts returns the charts and tables of all workloads of a kind.
func (r *Report) parts(k kind) (list []template.HTML) {
	for i, w := range r.measured(k) {
		t := r.table(w)
		if i == 0 {
			list = append(list, t.Meanings())
		}
		list = append(list, t.HTML())
	}
	if k == ofMemory || len(list) == 0 {
		return list
	}
	rate := "Actions per second"
	if k == ofLocks {
		rate = "Holds per second"
	}
	return append([]template.HTML{
		r.chart(k, rate, "by workload; more is better", func(r *Result) report.Figure { return r.ActionsPerSec }),
		r.chart(k, "99th percentile of latency, ms", "by workload; less is better",
			func(r *Result) report.Figure { return r.Latency.P99 }),
	}, list...)
}

// measured returns the workloads of a kind that have results.
func (r *Report) measured(k kind) (list []workload) {
	for _, w := range workloads {
		if w.kind == k && len(r.Workloads[w.name]) > 0 {
			list = append(list, w)
		}
	}
	return list
}

// chart draws one figure of all results of a kind on a logarithmic axis. The contenders' bars are side by side
// for each workload.
func (r *Report) chart(k kind, title, subtitle string, of func(*Result) report.Figure) template.HTML {
	c := report.Chart{
		Title: title, Subtitle: subtitle, Y: report.Axis{Log: true},
		About: "The scale is logarithmic. A missing bar is a figure that is not known.",
	}
	for _, w := range r.measured(k) {
		c.X.Categories = append(c.X.Categories, w.name)
	}
	for _, who := range contenders {
		s := report.Series{Name: who.name, Strong: who.name == roomdName}
		for i, name := range c.X.Categories {
			if result := r.Workloads[name][who.name]; result != nil && of(result) > 0 { // and not NaN
				s.Points = append(s.Points, report.Point{X: float64(i), Y: float64(of(result))})
			}
		}
		c.Series = append(c.Series, s)
	}
	return c.HTML()
}
