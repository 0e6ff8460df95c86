package bench

import (
	"fmt"
	"io"
	"slices"

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

// WriteTables writes the report for people, a table for each workload.
func (r *Report) WriteTables(out io.Writer) error {
	if _, err := fmt.Fprintln(out, r.setup()); err != nil {
		return err
	}
	for _, w := range workloads {
		if results := r.Workloads[w.name]; results != nil {
			if err := tableOf(w, results).writeText(out); err != nil {
				return err
			}
		}
	}
	for _, part := range r.parts() {
		if err := part.figures().writeText(out); err != nil {
			return err
		}
	}
	return nil
}

// parts returns the results of the workloads that compare no contenders, as far as there are any.
func (r *Report) parts() (list []interface{ figures() *figures }) {
	if r.WebSocket != nil {
		list = append(list, r.WebSocket)
	}
	if r.Memory != nil {
		list = append(list, r.Memory)
	}
	if r.Storm != nil {
		list = append(list, r.Storm)
	}
	if r.Neighbours != nil {
		list = append(list, r.Neighbours)
	}
	return list
}

// setup says on what the report was measured.
func (r *Report) setup() string {
	return fmt.Sprintf("%s; %s; %d cores; %.3g s a measurement", r.Redis, r.Go, r.Cores, r.Duration)
}

// resultColumns are what is known of a contender in a workload.
var resultColumns = []report.Column{
	{Head: ""},
	{Head: "actions/s", About: "acknowledged joins and leaves per second, after a warm-up; more is better"},
	{Head: "×article", About: "actions/s divided by those of article; more is better"},
	{Head: "×sadd", About: "actions/s divided by those of sadd; more is better"},
	{Head: "p50 ms", About: "half of the actions took at most so long; actions still under way at the end count, too"},
	{Head: "p99 ms", About: "99 of 100 actions took at most so long; less is better"},
	{Head: "×article", About: "p99 divided by that of article; less is better"},
	{Head: "×sadd", About: "p99 divided by that of sadd; less is better"},
	{Head: "p99.9 ms", About: "999 of 1,000 actions took at most so long"},
	{Head: "max ms", About: "the longest action"},
	{Head: "commands", About: "commands of Redis for an action, including those in scripts"},
	{Head: "redis µs", About: "processor time of Redis for an action"},
	{Head: "own µs", About: "processor time of nodes and clients, which are one process, for an action"},
	{Head: "Jain", About: "fairness: 1 if all clients had the same number of actions, 1/n if one of n had all"},
	{Head: "allocs", About: "allocations of nodes and clients for an action"},
}

// tableOf returns the results of one workload.
func tableOf(w workload, results map[string]*Result) *figures {
	t := report.Table{Columns: resultColumns, Plain: true}
	for _, name := range inOrder(results) {
		r := results[name]
		l := r.Latency.texts()
		t.Rows = append(t.Rows, report.Row{Strong: name == roomdName, Cells: slices.Concat(
			[]string{name, r.ActionsPerSec.Text("%.0f"), r.ToArticle.actions(), r.ToSadd.actions()},
			l[:2], []string{r.ToArticle.p99(), r.ToSadd.p99()}, l[2:], r.costs())})
	}
	for _, name := range inOrder(results) {
		t.Notes = append(t.Notes, notes(name, results[name].remarks())...)
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

// texts returns the 50th, 99th and 99.9th percentile and the maximum.
func (l Latency) texts() []string {
	return []string{l.P50.Text("%.2f"), l.P99.Text("%.2f"), l.P999.Text("%.2f"), l.Max.Text("%.1f")}
}

// costs returns what an action costs, and how even the clients' shares are.
func (r *Result) costs() []string {
	return []string{r.Commands.Text("%.2f"), r.RedisCPU.Text("%.1f"), r.OwnCPU.Text("%.1f"), r.Jain.Text("%.2f"), r.Allocs.Text("%.1f")}
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
