package loadtest

import (
	"html/template"
	"io"

	"gonum.org/v1/plot/plotter"

	"roomd/loadtest/report"
)

// WriteHTML writes the report as one self-contained page: the verdict and its reasons, what was
// played, actions per second over time, and latency by percentile.
func (r *Report) WriteHTML(w io.Writer) error {
	rate, err := r.plotRate()
	if err != nil {
		return err
	}
	latency, err := report.Latency("Latency", "actions", []report.Curve{{Values: r.curve}})
	if err != nil {
		return err
	}
	played := r.played()
	mix := r.mixed()
	mix.Title, mix.Subtitle = "Mix", "how the actions besides joins and leaves ended"
	lists := &report.Facts{Rows: violations(r.Violations),
		About: "Every reply and event was checked when it arrived. At the end each room's history was replayed and compared with Redis, with every node's answer, and with what every player knows."}
	times := &report.Facts{Title: "Percentiles", Rows: r.Latency.facts(), About: "Of acknowledged actions of players, from the request to its reply."}
	return report.Page{
		Command: "run", Question: "Are the lists right under load?", Verdict: r.Verdict, Good: r.Consistent(), Setup: played.Rows[0].Text,
		Sections: []report.Section{
			{ID: "violations", Title: "Violations", About: "What would be wrong, and how often it was seen.",
				Parts: []template.HTML{lists.HTML(), report.List(r.Details)}},
			{ID: "actions", Title: "Actions", Parts: []template.HTML{(&report.Facts{Title: played.Title, Rows: played.Rows[1:]}).HTML(), mix.HTML(), rate}},
			{ID: "errors", Title: "Errors", About: "Requests and connections that failed for no fault of a player.", Parts: []template.HTML{report.List(r.ErrorTexts)}},
			{ID: "latency", Title: "Latency", Parts: []template.HTML{latency, times.HTML()}},
		},
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
	p := report.NewPlot("Actions per second", "seconds", "actions/s")
	p.Subtitle = "over the time of the run; higher is better"
	p.About = "Acknowledged actions of all clients together. The first moments are slower, as clients connect and join."
	if err := p.Line("", line, false); err != nil {
		return "", err
	}
	p.X.Min, p.Y.Min = 0, 0
	return p.HTML(report.Width, report.Height)
}
