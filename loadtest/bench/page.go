package bench

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("bench").Parse(pageHTML))

// WriteHTML writes the report as one self-contained page: actions per second and
// the 99th percentile of latency by workload and contender, and the tables.
func (r *Report) WriteHTML(w io.Writer) error {
	var tables bytes.Buffer
	if err := r.WriteTables(&tables); err != nil {
		return err
	}
	wrong := ""
	if err := r.Err(); err != nil {
		wrong = err.Error()
	}
	var plots []template.HTML
	for _, c := range []chart{
		{"Actions per second (more is better)", "actions/s", func(r *Result) Figure { return r.ActionsPerSec }},
		{"99th percentile of latency (less is better)", "ms", func(r *Result) Figure { return r.Latency.P99 }},
	} {
		svg, err := c.draw(r)
		if err != nil {
			return err
		}
		plots = append(plots, svg)
	}
	return page.Execute(w, map[string]any{"Wrong": wrong, "Plots": plots, "Tables": tables.String()})
}
