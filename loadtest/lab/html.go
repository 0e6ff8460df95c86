package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/report"
)

var (
	//go:embed lab.html
	bodyHTML string
	//go:embed lab.css
	style template.CSS

	bodyTemplate = template.Must(template.New("lab").Parse(bodyHTML))
)

// rowView is a discipline on the page, with what went wrong with it.
type rowView struct {
	*Row
	Cells, Failures []*cellView
}

// cellView is a cell on the page. It is a failure if it has an ID: something went wrong, or it is not as listed.
type cellView struct {
	*Cell
	Class, About     string
	ID, Next         string // Next is the ID of the next failure
	Findings, Events []string
}

// WriteHTML writes the report as one self-contained page: the verdict with links to what is not as listed, the matrix with
// links to what went wrong, step by step, and what is known of each discipline.
func (r *Report) WriteHTML(w io.Writer) error {
	page := report.Page{
		Command: "lab", Question: "What do the published locks lose under faults, and what does roomd lose?",
		Verdict: r.Verdict, Good: r.AsListed(), Setup: r.setup(), Style: style,
	}
	for i, c := range r.differ {
		page.Failed = append(page.Failed, report.Link{To: c.id(), Text: r.Differences[i]})
	}
	var rows []rowView
	last := new(cellView)
	for _, row := range r.Disciplines {
		v := rowView{Row: row}
		for _, c := range row.Cells {
			cell := &cellView{Cell: c, Class: c.class(), About: c.fault.about}
			v.Cells = append(v.Cells, cell)
			if c.Anomalies.Total() > 0 || slices.Contains(r.differ, c) {
				cell.ID, last.Next = c.id(), c.id()
				cell.Findings, cell.Events = c.story()
				v.Failures = append(v.Failures, cell)
				last = cell
			}
		}
		rows = append(rows, v)
	}
	draw := func(name string) []template.HTML {
		var b strings.Builder
		if err := bodyTemplate.ExecuteTemplate(&b, name, map[string]any{"Heads": r.faults().Rows, "Rows": rows}); err != nil {
			panic(err) // a bug of the template
		}
		return []template.HTML{template.HTML(b.String())}
	}
	page.Sections = []report.Section{
		{ID: "matrix", Title: "Which lock fails under which fault",
			About: "A row is a way to lock, a column a fault. Follow a red cell to what happened there.",
			Parts: append(draw("matrix"), report.Meanings("What the marks mean", marks().Rows), report.Meanings("What the faults are", r.faults().Rows))},
		{ID: "failures", Title: "What happened", Parts: draw("stories"),
			About: "Each failure with what was found, and every step. Times are in the lock's seconds."},
		{ID: "cache", Title: "Caches", Parts: []template.HTML{r.cache().HTML()}},
		{ID: "steps", Title: "Articles, steps, and what is known", About: choices, Parts: []template.HTML{r.steps().HTML()}},
	}
	return page.Write(w)
}

func (c *Cell) id() string { return c.Discipline + "-under-" + c.Fault }

// story returns what was found in the cell, and what happened there. Both are cut off where they get long.
func (c *Cell) story() (findings, events []string) {
	line := func(at time.Duration, text string) string {
		return fmt.Sprintf("%.3f s  %s", float64(at)/float64(max(1, c.second)), text)
	}
	for _, f := range c.findings.All {
		findings = append(findings, line(f.At, f.String()))
	}
	for _, e := range c.history.Events {
		events = append(events, line(e.At, describe(e)))
	}
	return cut(findings, 8), cut(events, 60)
}

func cut(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	return append(lines[:n:n], fmt.Sprintf("and %d more", len(lines)-n))
}

// describe returns an event in words.
func describe(e anomaly.Event) string {
	text := strings.TrimSpace(e.Caller + " " + string(e.Kind))
	switch {
	case e.Kind == anomaly.Asked && e.Leave:
		return text + " to leave"
	case e.Kind == anomaly.Asked:
		return text + " to join"
	case e.Users != nil:
		return text + ": " + strings.Join(e.Users, " ")
	case e.Owner != "":
		return text + ": " + e.Owner + "'s lock"
	}
	return text
}
