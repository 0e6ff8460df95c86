package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
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

// story is what went wrong with a discipline, by fault.
type story struct {
	Name     string
	Failures []failure
}

// failure is a cell of the matrix in which something went wrong, or which is not as listed.
type failure struct {
	ID, Fault, About, Next string // Next is the ID of the next failure
	Findings, Events       []string
}

// square is a cell of the matrix.
type square struct{ Marks, Class, Link, Title string }

// What the page has of a cell, at most.
const (
	maxFindings = 8
	maxEvents   = 60
)

// WriteHTML writes the report as one self-contained page: the verdict with links to what is not as listed, the matrix with
// links to what went wrong, step by step, and the numbers.
func (r *Report) WriteHTML(w io.Writer) error {
	page := report.Page{
		Command: "lab", Question: "What do the published locks lose under faults, and what does roomd lose?",
		Verdict: r.Verdict, Good: r.AsListed(), Setup: r.setup(), Style: style,
	}
	failed := make(map[*Cell]bool)
	for i, c := range r.differ {
		failed[c] = true
		page.Failed = append(page.Failed, report.Link{To: c.id(), Text: r.Differences[i]})
	}
	rows := make(map[string][]square)
	var stories []story
	var last *failure
	for _, row := range r.Disciplines {
		s := story{Name: row.Name}
		for _, c := range row.Cells {
			q := square{Marks: c.Marks(), Class: c.class(), Title: c.Discipline + ": " + c.fault.about}
			if c.Anomalies.Total() > 0 || failed[c] {
				q.Link = c.id()
				s.Failures = append(s.Failures, c.failure())
			}
			rows[row.Name] = append(rows[row.Name], q)
		}
		if len(s.Failures) > 0 {
			stories = append(stories, s)
		}
	}
	for _, s := range stories {
		for i := range s.Failures {
			if last != nil {
				last.Next = s.Failures[i].ID
			}
			last = &s.Failures[i]
		}
	}
	draw := func(name string) template.HTML {
		var b strings.Builder
		data := map[string]any{"Report": r, "Heads": r.columns(), "Rows": rows, "Stories": stories}
		if err := bodyTemplate.ExecuteTemplate(&b, name, data); err != nil {
			panic(err) // a bug of the template
		}
		return template.HTML(b.String())
	}
	var cache []template.HTML
	for _, t := range r.cache() {
		cache = append(cache, t.HTML())
	}
	page.Sections = []report.Section{
		{ID: "matrix", Title: "Which lock fails under which fault", About: "A row is a way to lock, a column a fault. Follow a red cell to what happened there.",
			Parts: []template.HTML{draw("matrix"), report.Meanings("What the marks mean", marks().Rows), report.Meanings("What the faults are", r.faults().Rows)}},
		{ID: "failures", Title: "What happened", Parts: []template.HTML{draw("stories")},
			About: "Each failure with what was found, and every step. Times are in the lock's seconds."},
		{ID: "numbers", Title: "Numbers", Parts: []template.HTML{r.numbers().HTML()}},
		{ID: "cache", Title: "Cache guards", About: "Callers come to an expired entry of a cache, behind each lock.", Parts: cache},
		{ID: "steps", Title: "Articles and steps", About: choices, Parts: []template.HTML{r.steps().HTML()}},
	}
	return page.Write(w)
}

func (c *Cell) id() string { return c.Discipline + "-under-" + c.Fault }

func (c *Cell) failure() failure {
	f := failure{ID: c.id(), Fault: c.Fault, About: c.fault.about}
	at := func(d time.Duration) string { return fmt.Sprintf("%.3f s", float64(d)/float64(max(1, c.second))) }
	for i, finding := range c.findings.All {
		if i == maxFindings {
			f.Findings = append(f.Findings, fmt.Sprintf("and %d more", len(c.findings.All)-i))
			break
		}
		f.Findings = append(f.Findings, at(finding.At)+": "+finding.String())
	}
	for i, e := range c.history.Events {
		if i == maxEvents {
			f.Events = append(f.Events, fmt.Sprintf("and %d more", len(c.history.Events)-i))
			break
		}
		f.Events = append(f.Events, at(e.At)+"  "+describe(e))
	}
	return f
}

// describe returns an event in words.
func describe(e anomaly.Event) string {
	text := strings.TrimSpace(e.Caller + " " + string(e.Kind))
	switch {
	case e.Kind == anomaly.Asked && e.Leave:
		text += " to leave"
	case e.Kind == anomaly.Asked:
		text += " to join"
	case e.Kind == anomaly.Read, e.Kind == anomaly.Wrote, e.Kind == anomaly.Stored:
		text += ": " + strings.Join(e.Users, " ")
	case e.Owner != "":
		text += ": " + e.Owner + "'s lock"
	}
	return text
}
