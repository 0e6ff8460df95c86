package lab

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/report"
)

// The marks of a cell without anomalies.
const (
	markGood = "·"
	markNone = "–"
	markOpen = " "
)

// letters are the marks of the anomalies, in this order.
var letters = []struct{ what, letter, about string }{
	{anomaly.Lost, "L", "an acknowledged join or leave is lost"},
	{anomaly.Phantom, "P", "a phantom: in the list after a leave or a refused join"},
	{anomaly.Duplicate, "T", "a user is in the list twice"},
	{anomaly.TwoHolders, "2", "two hold the lock at once, and write; without a lock: a dirty read"},
	{anomaly.Deleted, "D", "somebody else's lock is deleted"},
	{anomaly.Kept, "K", "the holder releases its lock, and the lock stays"},
	{anomaly.Stuck, "S", "the room is stuck until all waiters give up"},
}

// marks explains the marks.
func marks() *report.Facts {
	f := new(report.Facts)
	add := func(name, text string) { f.Rows = append(f.Rows, report.Fact{Name: name, Text: text}) }
	add(markGood, "nothing wrong")
	add(markNone, "the discipline has no such step")
	for _, l := range letters {
		add(l.letter, l.about)
	}
	add("∞", "for ever: the lock stays, and does not expire")
	add("( )", "a quiet machine does not show it: chance, or this one was busy")
	return f
}

// quietText is the matrix on a machine that does nothing else, as WriteMatrix writes it.
//
//go:embed quiet.txt
var quietText string

// quiet returns the marks that a cell has there.
func quiet(discipline, name string) string {
	at := slices.IndexFunc(faults, func(f *fault) bool { return f.name == name })
	for line := range strings.Lines(quietText) {
		if words := strings.Fields(line); len(words) == 1+len(faults) && words[0] == discipline && at >= 0 {
			return words[1+at]
		}
	}
	return ""
}

// byChance returns the anomalies of the cell that a quiet machine does not show.
func (c *Cell) byChance() (list []string) {
	marks := quiet(c.Discipline, c.Fault)
	for _, l := range letters {
		if c.Anomalies.Of(l.what) > 0 && c.Discipline != roomd.name && !strings.Contains(marks, l.letter) {
			list = append(list, l.what)
		}
	}
	return list
}

// Marks returns the letters of the anomalies found in a cell.
func (c *Cell) Marks() string {
	switch {
	case !c.Applies:
		return markNone
	case !c.Done:
		return markOpen
	}
	marks, chance := "", ""
	for _, l := range letters {
		if slices.Contains(c.ByChance, l.what) {
			chance += l.letter
		} else if c.Anomalies.Of(l.what) > 0 {
			marks += l.letter
		}
	}
	if c.Anomalies.Forever {
		marks += "∞"
	}
	if chance != "" {
		marks += "(" + chance + ")"
	}
	return cmp.Or(marks, markGood)
}

// nameWidth is that of the names of disciplines.
const nameWidth = 21

// WriteMatrix writes which discipline fails under which fault, as far as the run got. With color it is for a terminal.
func (r *Report) WriteMatrix(w io.Writer, color bool) error {
	lines := make([]string, 2+len(r.Disciplines))
	for i := range lines {
		name := ""
		if i > 1 {
			name = r.Disciplines[i-2].Name
		}
		lines[i] = fmt.Sprintf("%-*s", nameWidth, name)
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
			if code := map[string]string{"none": "2", "good": "32", "bad": "1;31", "chance": "1;31"}[c.class()]; color && code != "" {
				text = "\x1b[" + code + "m" + text + "\x1b[0m"
			}
			lines[2+line] += text
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// class says how a cell looks; "" where the run has not got yet.
func (c *Cell) class() string {
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

// choices says what the articles leave open.
const choices = "The articles leave open, and the lab chose: a list is JSON, a leave is a join the other way round, and a player " +
	"asks again every 5 ms where the article's caller gives up."

// steps returns each discipline's article and steps, and what is known of it.
func (r *Report) steps() *report.Facts {
	f := new(report.Facts)
	for _, row := range r.Disciplines {
		fact := report.Fact{Name: row.Name, Text: row.Article + ": " + row.About, About: "It must show nothing."}
		for i, l := range row.discipline.listed {
			if i == 0 {
				fact.About = "It must show: "
			}
			fact.About += fmt.Sprintf("%s (%s). ", l.Text, l.Fault)
		}
		f.Rows = append(f.Rows, fact)
	}
	return f
}

// faults explains the faults that were played.
func (r *Report) faults() *report.Facts {
	f := new(report.Facts)
	for _, c := range r.Disciplines[0].Cells {
		f.Rows = append(f.Rows, report.Fact{Name: c.Fault, Text: c.fault.about})
	}
	return f
}

// WriteTable writes the whole report for people.
func (r *Report) WriteTable(w io.Writer, color bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.setup())
	_ = r.WriteMatrix(&b, color)
	for _, facts := range []*report.Facts{marks(), r.faults(), r.steps()} {
		b.WriteString("\n")
		_ = facts.WriteText(&b, 0)
	}
	b.WriteString(choices + "\n")
	if len(r.Cache) > 0 {
		b.WriteString("\n")
		_ = r.cache().WriteText(&b)
	}
	fmt.Fprintf(&b, "\nverdict  %s\n", r.Verdict)
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) setup() string {
	return fmt.Sprintf("%s. A published second lasts %v ms; heavy load lasts %v s, unscaled.", r.Redis, r.SecondMS, r.Duration)
}
