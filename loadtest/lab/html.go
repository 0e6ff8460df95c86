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
			{ID: "numbers", Title: "Numbers", Parts: []template.HTML{numbers.HTML(), latency}},
			{ID: "cache", Title: "Cache guards", About: "Many callers come at once to an expired entry of a cache, behind each lock.", Parts: []template.HTML{r.cache().HTML()}},
			{ID: "known", Title: "Known anomalies", About: "What is known of each discipline, and whether this run showed it.", Parts: []template.HTML{r.known().HTML()}},
			{ID: "failures", Title: "Failures", About: timelineAbout, Parts: []template.HTML{stories}},
		},
		Style: style,
	}.Write(w)
}

// timelineAbout explains the timelines.
const timelineAbout = "Each lane is a caller, from its request (?) to its answer: ✓ yes, ✗ no, ≈ unknown, ☠ dead. " +
	"… found the lock taken, ● got it, R read, W wrote, ○ released it, ↯ a reply was lost; hatched while it was stopped. " +
	"The lock's lane shows Redis: ⌛ expired, ✂ deleted by another, ↻ prolonged by another. The numbers in the last lane are the " +
	"lists below it. Long times are drawn shorter than they were."

// known returns what is listed for each discipline.
func (r *Report) known() *report.Table {
	t := &report.Table{Subtitle: "what must be seen for the verdict as listed", Columns: []report.Column{
		{Head: "discipline"}, {Head: "steps", Words: true}, {Head: "anomaly", Words: true}, {Head: "under", Words: true}, {Head: "seen"},
	}}
	const seen = 4
	for _, row := range r.Disciplines {
		if len(row.Listed) == 0 {
			t.Rows = append(t.Rows, report.Row{Cells: []string{row.Name, row.About, "nothing", "", ""}, Strong: row.discipline == &roomd})
		}
		for _, l := range row.Listed {
			line := report.Row{Cells: []string{row.Name, row.About, l.Text, l.Fault, "yes"}, Good: seen}
			if !l.Seen {
				line.Cells[seen], line.Good, line.Bad = "no", 0, seen
			}
			t.Rows = append(t.Rows, line)
		}
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

// plotLatency draws each discipline's latency under heavy load.
func (r *Report) plotLatency() (template.HTML, error) {
	var curves []report.Curve
	for _, row := range r.Disciplines {
		curves = append(curves, report.Curve{Name: row.Name, Values: row.cell(contention).curve, Strong: row.discipline == &roomd})
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
