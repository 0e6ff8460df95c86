package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/report"
)

// nameWidth is the width of the disciplines' names.
const nameWidth = 21

// WriteMatrix writes the cells that the run has played as a matrix of disciplines and faults. With color it is for a
// terminal.
func (r *Report) WriteMatrix(w io.Writer, color bool) error {
	lines := []string{strings.Repeat(" ", nameWidth), strings.Repeat(" ", nameWidth)}
	for _, row := range r.Disciplines {
		lines = append(lines, fmt.Sprintf("%-*s", nameWidth, row.Name))
	}
	for i, c := range r.Disciplines[0].Cells {
		first, second, _ := strings.Cut(c.Fault, "-")
		width := max(len(first), len(second))
		for _, row := range r.Disciplines {
			width = max(width, utf8.RuneCountInString(row.Cells[i].Marks()))
		}
		lines[0] += fmt.Sprintf("%*s", 1+width, first)
		lines[1] += fmt.Sprintf("%*s", 1+width, second)
		for line, row := range r.Disciplines {
			c := row.Cells[i]
			text := fmt.Sprintf("%*s", 1+width, c.Marks())
			if code := map[string]string{"none": "2", "good": "32", "bad": "1;31",
				"chance": "1;31"}[c.Class()]; color && code != "" {
				text = "\x1b[" + code + "m" + text + "\x1b[0m"
			}
			lines[2+line] += text
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// Class returns the CSS class of a cell; "" if it was not played yet.
func (c *Cell) Class() string {
	switch marks := c.Marks(); {
	case marks == markNone:
		return "none"
	case marks == markOpen:
		return ""
	case marks == markGood:
		return "good"
	case strings.HasPrefix(marks, "("):
		return "chance"
	}
	return "bad"
}

func marks() *report.Facts {
	f := &report.Facts{Rows: []report.Fact{{Name: markGood, Text: "nothing wrong"},
		{Name: markNone, Text: "the discipline has no such step"}}}
	for _, l := range anomaly.Anomalies {
		f.Rows = append(f.Rows, report.Fact{Name: l.Letter, Text: l.About})
	}
	f.Rows = append(f.Rows, report.Fact{Name: "∞", Text: "for ever: the lock stays, and does not expire"},
		report.Fact{Name: "( )", Text: "a quiet machine does not show it: chance, or this one was busy"})
	return f
}

// steps returns each discipline's article, steps and known anomalies.
func (r *Report) steps() *report.Facts {
	f := new(report.Facts)
	for _, row := range r.Disciplines {
		fact := report.Fact{Name: row.Name, Text: row.Article + ": " + row.About, About: "It must show: "}
		for _, l := range row.discipline.listed {
			fact.About += fmt.Sprintf("%s (%s). ", l.Text, l.Fault)
		}
		if len(row.discipline.listed) == 0 {
			fact.About += "nothing."
		}
		f.Rows = append(f.Rows, fact)
	}
	return f
}

func (r *Report) faults() *report.Facts {
	f := new(report.Facts)
	for _, c := range r.Disciplines[0].Cells {
		f.Rows = append(f.Rows, report.Fact{Name: c.Fault, Text: c.fault.about})
	}
	return f
}

// choices says how the lab fills gaps in the articles.
const choices = "The articles leave open, and the lab chose: a list is JSON, a leave is a join the other way round, and a player " +
	"asks again every 5 ms where the article's caller gives up."

func (r *Report) setup() string {
	return fmt.Sprintf("%s. A published second lasts %v ms; heavy load lasts %v s, unscaled.", r.Redis, r.SecondMS,
		r.Duration)
}

// WriteTable writes the whole report as text.
func (r *Report) WriteTable(w io.Writer, color bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.setup())
	_ = r.WriteMatrix(&b, color)
	for _, facts := range []*report.Facts{marks(), r.faults(), r.steps()} {
		b.WriteString("\n" + facts.Text(0))
	}
	b.WriteString(choices + "\n")
	if len(r.Cache) > 0 {
		b.WriteString("\n" + r.cache().Text())
	}
	fmt.Fprintf(&b, "\nverdict  %s\n", strings.Join(append([]string{r.Verdict}, r.Differences...), "\n  "))
	_, err := io.WriteString(w, b.String())
	return err
}

var (
	//go:embed lab.html
	bodyHTML string
	//go:embed lab.css
	style template.CSS

	bodyTemplate = template.Must(template.New("lab").Parse(bodyHTML))
)

// WriteHTML writes the report as one self-contained page: the verdict with links to differences, the matrix
// with links to the steps of each anomaly, and the known anomalies of each discipline.
func (r *Report) WriteHTML(w io.Writer) error {
	page := report.Page{
		Command: "lab", Question: "What do the published locks lose under faults, and what does roomd lose?",
		Verdict: r.Verdict, Good: r.AsListed(), Setup: r.setup(), Style: style,
	}
	for i, c := range r.differ {
		page.Failed = append(page.Failed, report.Link{To: c.ID(), Text: r.Differences[i]})
	}
	last := new(Cell)
	for _, row := range r.Disciplines {
		row.Failures = nil
		for _, c := range row.Cells {
			if c.Fails = c.Anomalies.Total() > 0 || slices.Contains(r.differ, c); c.Fails {
				row.Failures, last.Next = append(row.Failures, c), c.ID()
				last = c
			}
		}
	}
	draw := func(name string) []template.HTML {
		var b strings.Builder
		if err := bodyTemplate.ExecuteTemplate(&b, name,
			map[string]any{"Heads": r.faults().Rows, "Rows": r.Disciplines}); err != nil {
			panic(err) // a bug of the template
		}
		return []template.HTML{template.HTML(b.String())}
	}
	page.Sections = []report.Section{
		{ID: "matrix", Title: "Which lock fails under which fault",
			About: "A row is a way to lock, a column a fault. Follow a red cell to what happened there.",
			Parts: append(draw("matrix"), report.Meanings("What the marks mean", marks().Rows),
				report.Meanings("What the faults are", r.faults().Rows))},
		{ID: "failures", Title: "What happened", Parts: draw("stories"),
			About: "Each failure with what was found, and every step. Times are in the lock's seconds."},
		{ID: "cache", Title: "Caches", Parts: []template.HTML{r.cache().HTML()}},
		{ID: "steps", Title: "Articles, steps, and what is known", About: choices,
			Parts: []template.HTML{r.steps().HTML()}},
	}
	return page.Write(w)
}

// ID returns the cell's address on the page.
func (c *Cell) ID() string { return c.Discipline + "-under-" + c.Fault }

// About describes the fault.
func (c *Cell) About() string { return c.fault.about }

// Findings returns the cell's anomalies, as many as fit.
func (c *Cell) Findings() (lines []string) {
	for _, f := range c.findings {
		lines = append(lines, c.line(f.At, f.String()))
	}
	return cut(lines, 8)
}

// Events returns the cell's events, as many as fit.
func (c *Cell) Events() (lines []string) {
	for _, e := range c.history.Events {
		text := strings.TrimSpace(e.Caller + " " + string(e.Kind))
		switch {
		case e.Kind == anomaly.Asked && e.Leave:
			text += " to leave"
		case e.Kind == anomaly.Asked:
			text += " to join"
		case e.Users != nil:
			text += ": " + strings.Join(e.Users, " ")
		case e.Owner != "":
			text += ": " + e.Owner + "'s lock"
		}
		lines = append(lines, c.line(e.At, text))
	}
	return cut(lines, 60)
}

func (c *Cell) line(at time.Duration, text string) string {
	return fmt.Sprintf("%.3f s  %s", float64(at)/float64(max(1, c.second)), text)
}

func cut(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	return append(lines[:n:n], fmt.Sprintf("and %d more", len(lines)-n))
}
