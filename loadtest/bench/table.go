package bench

import (
	"fmt"
	"io"
	"slices"

	"roomd/loadtest/report"
)

// WriteTables writes the report for people, a table for each workload.
func (r *Report) WriteTables(out io.Writer) error {
	if err := r.writeHead(out); err != nil {
		return err
	}
	for _, w := range workloads {
		if results := r.Workloads[w.name]; results != nil {
			if err := writeTable(out, w, results); err != nil {
				return err
			}
		}
	}
	for _, part := range r.parts() {
		if err := part.writeTable(out); err != nil {
			return err
		}
	}
	return nil
}

// parts returns the results of the workloads that compare no contenders, as far as there are any.
func (r *Report) parts() (list []interface{ writeTable(io.Writer) error }) {
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

func (r *Report) writeHead(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s; %s; %d cores; %.3g s a measurement\n", r.Redis, r.Go, r.Cores, r.Duration)
	return err
}

// writeTable writes the results of one workload, and remarks below.
func writeTable(out io.Writer, w workload, results map[string]*Result) error {
	fmt.Fprintf(out, "\n%s: %s\n", w.name, w.about)
	rows := [][]string{{"", "actions/s", "×article", "×sadd", "p50 ms", "p99 ms", "×article", "×sadd", "p99.9 ms", "max ms",
		"commands", "redis µs", "own µs", "Jain", "allocs"}}
	for _, name := range inOrder(results) {
		r := results[name]
		l := r.Latency.texts()
		rows = append(rows, slices.Concat(
			[]string{name, r.ActionsPerSec.Text("%.0f"), r.ToArticle.actions(), r.ToSadd.actions()},
			l[:2], []string{r.ToArticle.p99(), r.ToSadd.p99()}, l[2:], r.costs()))
	}
	if err := report.Columns(out, rows); err != nil {
		return err
	}
	for _, name := range inOrder(results) {
		if err := writeRemarks(out, name, results[name].remarks()); err != nil {
			return err
		}
	}
	return nil
}

func writeRemarks(out io.Writer, name string, remarks []string) error {
	for _, remark := range remarks {
		if _, err := fmt.Fprintf(out, "  %s: %s\n", name, remark); err != nil {
			return err
		}
	}
	return nil
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
