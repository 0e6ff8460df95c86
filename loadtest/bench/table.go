package bench

import (
	"fmt"
	"io"
	"slices"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
)

// figures are a table, and what is to say before it.
type figures struct {
	name, about string
	facts       report.Facts
	table       report.Table
}

func (f *figures) writeText(out io.Writer) error {
	if _, err := fmt.Fprintf(out, "\n%s: %s\n", f.name, f.about); err != nil {
		return err
	}
	if err := f.facts.WriteText(out, 0); err != nil {
		return err
	}
	return f.table.WriteText(out)
}

// setup says on what the report was measured.
func (r *Report) setup() string {
	return fmt.Sprintf("%s; %s; %d cores; %.3g s a measurement", r.Redis, r.Go, r.Cores, r.Duration)
}

// latencyColumns and costColumns are what is known of a contender besides its rate; see latencyTexts and
// Result.costs.
var (
	latencyColumns = []report.Column{
		{Head: "p50 ms", About: "half of the actions took at most so long; actions still under way at the end count, too"},
		{Head: "p99 ms", About: "99 of 100 actions took at most so long; less is better"},
		{Head: "p99.9 ms", About: "999 of 1,000 actions took at most so long"},
		{Head: "max ms", About: "the longest action"},
	}
	costColumns = []report.Column{
		{Head: "commands", About: "commands of Redis for an action, including those in scripts"},
		{Head: "reads", About: "reads of Redis from sockets for an action, about the round trips"},
		{Head: "redis µs", About: "processor time of Redis for an action"},
		{Head: "own µs", About: "processor time of nodes and clients, which are one process, for an action"},
		{Head: "Jain", About: "fairness: 1 if all clients had the same number of actions, 1/n if one of n had all"},
		{Head: "allocs", About: "allocations of nodes and clients for an action"},
	}
)

// columns are what is known of a contender in a workload.
func (w workload) columns() []report.Column {
	rate, rates, p99s := report.Column{Head: "actions/s", About: "acknowledged joins and leaves per second, after a warm-up; more is better"}, []report.Column(nil), []report.Column(nil)
	if w.locks {
		rate = report.Column{Head: "holds/s", About: "locks taken and given back per second, after a warm-up; more is better"}
	}
	for _, name := range w.references() {
		rates = append(rates, report.Column{Head: "×" + name, About: rate.Head + " divided by those of " + name + "; more is better"})
		p99s = append(p99s, report.Column{Head: "×" + name, About: "p99 divided by that of " + name + "; less is better"})
	}
	return slices.Concat([]report.Column{{Head: ""}, rate}, rates, latencyColumns[:2], p99s, latencyColumns[2:], costColumns)
}

// tableOf returns the results of one workload.
func tableOf(w workload, results map[string]*Result) *figures {
	t := report.Table{Columns: w.columns(), Plain: true}
	for _, name := range inOrder(results) {
		r := results[name]
		l := latencyTexts(r.Latency)
		var rates, p99s []string
		for _, reference := range w.references() {
			rates, p99s = append(rates, r.to(reference).actions()), append(p99s, r.to(reference).p99())
		}
		t.Rows = append(t.Rows, report.Row{Strong: name == roomdName || name == lockmgrName, Cells: slices.Concat(
			[]string{name, r.ActionsPerSec.Text("%.0f")}, rates, l[:2], p99s, l[2:], r.costs())})
		t.Notes = append(t.Notes, notes(name, r.remarks())...)
	}
	return &figures{name: w.name, about: w.about, table: t}
}

// notes returns remarks with the name of what they are about.
func notes(name string, remarks []string) (list []string) {
	for _, remark := range remarks {
		list = append(list, name+": "+remark)
	}
	return list
}

// latencyTexts returns the 50th, 99th and 99.9th percentile and the maximum.
func latencyTexts(l tally.Latency) []string {
	return []string{l.P50.Text("%.2f"), l.P99.Text("%.2f"), l.P999.Text("%.2f"), l.Max.Text("%.1f")}
}

// costs returns what an action costs, and how even the clients' shares are.
func (r *Result) costs() []string {
	return []string{r.Commands.Text("%.2f"), r.Reads.Text("%.2f"), r.RedisCPU.Text("%.1f"), r.OwnCPU.Text("%.1f"), r.Jain.Text("%.2f"), r.Allocs.Text("%.1f")}
}

func (r *Ratio) actions() string {
	if r == nil {
		return "–"
	}
	return r.ActionsPerSec.Text("%.2f")
}

func (r *Ratio) p99() string {
	if r == nil {
		return "–"
	}
	return r.P99.Text("%.3f")
}
