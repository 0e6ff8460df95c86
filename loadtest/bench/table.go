package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
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
	if r.WebSocket != nil {
		return r.WebSocket.writeTable(out)
	}
	return nil
}

func (r *Report) writeHead(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s; %s; %d cores; %.3g s a measurement\n", r.Redis, r.Go, r.Cores, r.Duration)
	return err
}

// newTable returns a table whose columns stand right.
func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// writeTable writes what came of one workload, and remarks below.
func writeTable(out io.Writer, w workload, results map[string]*Result) error {
	fmt.Fprintf(out, "\n%s: %s\n", w.name, w.about)
	t := newTable(out)
	fmt.Fprint(t, "\tactions/s\t×article\t×sadd\tp50 ms\tp99 ms\t×article\t×sadd\tp99.9 ms\tmax ms\tcommands\tredis µs\town µs\tJain\tallocs\t\n")
	for _, name := range inOrder(results) {
		r := results[name]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name,
			r.ActionsPerSec.Text("%.0f"), r.ToArticle.actions(), r.ToSadd.actions(),
			r.Latency.P50.Text("%.2f"), r.Latency.P99.Text("%.2f"), r.ToArticle.p99(), r.ToSadd.p99(),
			r.Latency.P999.Text("%.2f"), r.Latency.Max.Text("%.1f"),
			r.Commands.Text("%.2f"), r.RedisCPU.Text("%.1f"), r.OwnCPU.Text("%.1f"), r.Jain.Text("%.2f"), r.Allocs.Text("%.1f"))
	}
	if err := t.Flush(); err != nil {
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
