package lab

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
)

//go:embed lab.html
var pageHTML string

var page = template.Must(template.New("lab").Parse(pageHTML))

// failure is a discipline that failed under a fault.
type failure struct {
	ID, Name, Fault, About string
	Findings               []string
	Timeline               *timeline
	Events                 []string
}

// square is a cell of the matrix on the page.
type square struct{ Marks, Class, Link, Title string }

// WriteHTML writes the report as one self-contained page: the matrix, the numbers,
// latency, and for each failure a timeline of who held the lock and what was
// written.
func (r *Report) WriteHTML(w io.Writer) error {
	latency, err := r.plotLatency()
	if err != nil {
		return err
	}
	var table strings.Builder
	r.writeNumbers(&table)
	r.writeCache(&table)
	var failures []failure
	rows := make(map[string][]square)
	for _, row := range r.Disciplines {
		for _, c := range row.Cells {
			rows[row.Name] = append(rows[row.Name], c.square())
			if c.Anomalies.Total() > 0 {
				failures = append(failures, c.failure())
			}
		}
	}
	var heads []*fault
	if len(r.Disciplines) > 0 {
		for _, c := range r.Disciplines[0].Cells {
			heads = append(heads, c.fault)
		}
	}
	return page.Execute(w, map[string]any{
		"Report": r, "Good": r.AsListed(), "Heads": heads, "Rows": rows, "Legend": legend,
		"Table": table.String(), "Latency": latency, "Failures": failures,
	})
}

// Head and Name are for the page.
func (f *fault) Head() string { return f.head[0] + " " + f.head[1] }

// About is for the page.
func (f *fault) About() string { return f.name + ": " + f.about }

func (c *Cell) id() string { return c.Discipline + "-under-" + c.Fault }

func (c *Cell) square() square {
	s := square{Marks: c.Marks(), Class: "good", Title: c.Discipline + ", " + c.fault.about}
	switch {
	case !c.Applies || !c.Done:
		s.Class = "none"
	case c.Anomalies.Total() > 0:
		s.Class, s.Link = "bad", "#"+c.id()
	}
	return s
}

// maxFindings is how many anomalies of a cell are put into words.
const maxFindings = 8

func (c *Cell) failure() failure {
	f := failure{ID: c.id(), Name: c.Discipline, Fault: c.Fault, About: c.fault.about, Timeline: newTimeline(c.history)}
	for _, finding := range c.findings.All[:min(maxFindings, len(c.findings.All))] {
		f.Findings = append(f.Findings, millis(finding.At)+": "+finding.String())
	}
	if len(c.findings.All) > maxFindings {
		f.Findings = append(f.Findings, "and so on")
	}
	for _, e := range c.history.Events[:min(maxEvents, len(c.history.Events))] {
		f.Events = append(f.Events, millis(e.At)+"  "+tell(e))
	}
	return f
}
