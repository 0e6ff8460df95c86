package bench

import (
	"io"
	"strings"

	"roomd/loadtest/report"
)

// WriteHTML writes the report as one self-contained page: actions per second and
// the 99th percentile of latency by workload and contender, and the tables.
func (r *Report) WriteHTML(w io.Writer) error {
	page := report.Page{Command: "bench", Verdict: "all lists right", Good: true}
	if wrong := r.wrong(); len(wrong) > 0 {
		page.Verdict, page.Good, page.Problems = "wrong lists or failed actions", false, wrong
	}
	for _, c := range []chart{
		{"Actions per second (more is better)", "actions/s", func(r *Result) Figure { return r.ActionsPerSec }},
		{"99th percentile of latency (less is better)", "ms", func(r *Result) Figure { return r.Latency.P99 }},
	} {
		svg, err := c.draw(r)
		if err != nil {
			return err
		}
		page.Parts = append(page.Parts, svg)
	}
	svg, err := r.Neighbours.draw()
	if err != nil {
		return err
	}
	page.Parts = append(page.Parts, svg)
	var tables strings.Builder
	if err := r.WriteTables(&tables); err != nil {
		return err
	}
	page.Parts = append(page.Parts, report.Text(tables.String()))
	return page.Write(w)
}
