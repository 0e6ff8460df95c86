package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"roomd/loadtest/report"
)

var (
	//go:embed lab.html
	bodyHTML string
	//go:embed lab.css
	style template.CSS

	bodyTemplate = template.Must(template.New("lab").Parse(bodyHTML))
)

// failure is a discipline that failed under a fault, for the page.
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
	var table, body strings.Builder
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
	if err := bodyTemplate.Execute(&body, map[string]any{
		"Report": r, "Heads": r.columns(), "Rows": rows, "Legend": report.Text(legend),
		"Table": report.Text(table.String()), "Latency": latency, "Failures": failures,
	}); err != nil {
		return err
	}
	return report.Page{
		Command: "lab", Verdict: r.Verdict, Good: r.AsListed(), Problems: r.Differences,
		Parts: []template.HTML{template.HTML(body.String())}, Style: style,
	}.Write(w)
}

// columns returns the faults that were played.
func (r *Report) columns() (list []*fault) {
	if len(r.Disciplines) > 0 {
		for _, c := range r.Disciplines[0].Cells {
			list = append(list, c.fault)
		}
	}
	return list
}

// plotLatency draws each discipline's latency under heavy load.
func (r *Report) plotLatency() (template.HTML, error) {
	var curves []report.Curve
	for _, row := range r.Disciplines {
		curves = append(curves, report.Curve{Name: row.Name, Values: row.cell(contention).curve})
	}
	return report.Latency("Latency under heavy load", "requests", curves)
}

// Head is the title of the column on the page.
func (f *fault) Head() string { return f.head[0] + " " + f.head[1] }

// About explains the column on the page.
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

// maxFindings is how many anomalies of a cell the page describes.
const maxFindings = 8

func (c *Cell) failure() failure {
	f := failure{ID: c.id(), Name: c.Discipline, Fault: c.Fault, About: c.fault.about, Timeline: newTimeline(c.history)}
	for _, finding := range c.findings.All[:min(maxFindings, len(c.findings.All))] {
		f.Findings = append(f.Findings, millis(finding.At)+": "+finding.String())
	}
	if len(c.findings.All) > maxFindings {
		f.Findings = append(f.Findings, fmt.Sprintf("and %d more", len(c.findings.All)-maxFindings))
	}
	for _, e := range c.history.Events[:min(maxEvents, len(c.history.Events))] {
		f.Events = append(f.Events, millis(e.At)+"  "+describe(e))
	}
	return f
}
