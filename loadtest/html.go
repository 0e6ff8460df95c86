package loadtest

import (
	"html/template"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"roomd/loadtest/report"
)

// WriteHTML writes the report as one self-contained page: the table, actions per
// second over time, and latency by percentile.
func (r *Report) WriteHTML(w io.Writer) error {
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		return err
	}
	rate, err := r.plotRate()
	if err != nil {
		return err
	}
	latency, err := report.Latency("Latency", "actions", []report.Curve{{Values: r.curve}})
	if err != nil {
		return err
	}
	return report.Page{
		Command: "run", Verdict: r.Verdict, Good: r.Consistent(),
		Parts: []template.HTML{report.Text(table.String()), rate, latency},
	}.Write(w)
}

func (r *Report) plotRate() (template.HTML, error) {
	var line plotter.XYs
	before := sample{}
	for _, s := range r.samples {
		if d := s.seconds - before.seconds; d > 0 {
			line = append(line, plotter.XY{X: s.seconds, Y: float64(s.actions-before.actions) / d})
		}
		before = s
	}
	if len(line) == 0 {
		return "", nil
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Actions per second", "seconds", "actions/s"
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	if err := report.AddLine(p, 0, "", line); err != nil {
		return "", err
	}
	return report.SVG(p, report.Width, report.Height)
}
