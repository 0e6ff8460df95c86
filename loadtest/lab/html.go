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
// and for each failure a timeline of who held the lock and what was
// written.
func (r *Report) WriteHTML(w io.Writer) error {
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
	draw := func(name string) (template.HTML, error) {
		var b strings.Builder
		err := bodyTemplate.ExecuteTemplate(&b, name, map[string]any{"Report": r, "Heads": r.columns(), "Rows": rows, "Failures": failures})
		return template.HTML(b.String()), err
	}
	matrix, err := draw("matrix")
	if err != nil {
		return err
	}
	stories, err := draw("failures")
	if err != nil {
		return err
	}
	numbers := r.numbers()
	numbers.Title, numbers.Subtitle = "Counts", "over all faults, and speed under heavy load"
	return report.Page{
		Command: "lab", Question: "What do the published locks lose under faults, and what does roomd lose?",
		Verdict: r.Verdict, Good: r.AsListed(), Problems: r.Differences,
		Setup: fmt.Sprintf("%s; seed %d. A published second lasts %v ms; heavy load lasts %v s, unscaled.", r.Redis, r.Seed, r.SecondMS, r.Duration),
		Sections: []report.Section{
			{ID: "matrix", Title: "Which lock fails under which fault", About: "A row is a way to lock, a column a fault. Follow a red cell to what happened there.",
				Parts: []template.HTML{matrix, report.Meanings("What the letters mean", markMeanings), report.Meanings("What the faults are", faultMeanings)}},
			{ID: "steps", Title: "Articles and steps", About: choices, Parts: []template.HTML{r.published().HTML()}},
			{ID: "numbers", Title: "Numbers", Parts: []template.HTML{numbers.HTML()}},
			{ID: "cache", Title: "Cache guards", About: "Many callers come at once to an expired entry of a cache, behind each lock.", Parts: []template.HTML{r.cache().HTML(), r.cacheFaults().HTML()}},
			{ID: "draws", Title: "Same values", About: "Locks told from others by a value that is drawn.", Parts: []template.HTML{r.drawn().HTML()}},
			{ID: "failures", Title: "Failures", About: timelineAbout, Parts: []template.HTML{stories}},
		},
		Style: style,
	}.Write(w)
}

// timelineAbout explains the timelines.
const timelineAbout = "Each lane is a caller, from its request (?) to its answer: ✓ yes, ✗ no, ≈ unknown, ☠ dead. " +
	"… found the lock taken, ● got it, R read, W wrote, ○ released it, ↯ a reply was lost; hatched while it was stopped. " +
	"The lock's lane shows Redis: ⌛ expired, ⚡ lost in a failover, ✂ deleted by another, ↻ prolonged by another. The numbers in the last lane are the " +
	"lists below it. Times are in the lock's seconds. Long ones are drawn shorter than they were."

// published returns each discipline's article and steps.
func (r *Report) published() *report.Table {
	t := &report.Table{Columns: []report.Column{{Head: "discipline"}, {Head: "article", Words: true}, {Head: "steps", Words: true}}}
	for _, row := range r.Disciplines {
		t.Rows = append(t.Rows, report.Row{Cells: []string{row.Name, row.Article, row.About}, Strong: row.discipline == &roomd})
	}
	return t
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

// Head is the title of the column on the page.
func (f *fault) Head() string { return f.words()[0] + " " + f.words()[1] }

// About explains the column on the page.
func (f *fault) About() string { return f.name + ": " + f.about }

func (c *Cell) id() string { return c.Discipline + "-under-" + c.Fault }

func (c *Cell) square() square {
	s := square{Marks: c.Marks(), Class: "good", Title: c.Discipline + ", " + c.fault.about}

	switch {
	case !c.Applies || !c.Done:
		s.Class = "none"
	case strings.HasPrefix(s.Marks, "("):
		s.Class, s.Link = "chance", "#"+c.id()
	case c.Anomalies.Total() > 0:
		s.Class, s.Link = "bad", "#"+c.id()
	}
	return s
}

// Number returns which of the articles the discipline is from.
func (r *Row) Number() string {
	number, _, ok := strings.Cut(r.Article, ":")
	if !ok {
		return markNone
	}
	return number
}

// maxFindings is how many anomalies of a cell the page describes.
const maxFindings = 8

func (c *Cell) failure() failure {
	f := failure{ID: c.id(), Name: c.Discipline, Fault: c.Fault, About: c.fault.about, Timeline: newTimeline(c.history, c.second)}
	scale := timescale{c.second}
	for _, finding := range c.findings.All[:min(maxFindings, len(c.findings.All))] {
		f.Findings = append(f.Findings, scale.published(finding.At)+": "+finding.String())
	}
	if len(c.findings.All) > maxFindings {
		f.Findings = append(f.Findings, fmt.Sprintf("and %d more", len(c.findings.All)-maxFindings))
	}
	for _, e := range c.history.Events[:min(maxEvents, len(c.history.Events))] {
		f.Events = append(f.Events, scale.published(e.At)+"  "+describe(e))
	}
	return f
}
