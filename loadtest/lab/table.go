package lab

import (
	"fmt"
	"io"
	"strings"

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/report"
)

// The marks of a cell.
const (
	markGood = "·"
	markNone = "–"
	markOpen = " "
)

// letters are the marks of the anomalies, in this order.
var letters = []struct{ what, letter string }{
	{anomaly.Lost, "L"},
	{anomaly.Phantom, "P"},
	{anomaly.Duplicate, "T"},
	{anomaly.TwoHolders, "2"},
	{anomaly.Deleted, "D"},
	{anomaly.Stuck, "S"},
}

// The words of the matrix. The lines of the table in a terminal break where the words do.
var (
	markMeanings = []report.Fact{
		{Name: markGood, Text: "nothing wrong"},
		{Name: markNone, Text: "the discipline has no such step"},
		{Name: "L", Text: "an acknowledged join or leave is lost"},
		{Name: "P", Text: "a phantom: in the list after a leave or a refused join"},
		{Name: "T", Text: "a user is in the list twice"},
		{Name: "2", Text: "two hold the lock at once, and write"},
		{Name: "D", Text: "somebody else's lock is deleted"},
		{Name: "S", Text: "the room is stuck until all waiters give up; S∞ for ever"},
	}
	faultMeanings = []report.Fact{
		{Name: "pause", Text: "the holder is stopped past the TTL: between SETNX and EXPIRE, before its write, before its\n" +
			"release, and within its release between check and DEL"},
		{Name: "crash", Text: "the holder dies: between SETNX and EXPIRE, with the lock, after its read, after its write"},
		{Name: "lost", Text: "a reply is lost and the client sends the command again: taking the lock, the write, the release"},
		{Name: "same token", Text: "two callers draw the same random number, and the first is stopped before its release"},
		{Name: "just gone", Text: "nothing fails, but a lock is freed between a waiter's SETNX and its GET"},
		{Name: "take over", Text: "two callers find a dead holder's time past"},
		{Name: "clock ahead", Text: "a caller's clock is ahead by more than the TTL"},
		{Name: "heavy load", Text: "many callers, and no fault"},
	}
)

// legend explains the matrix in a terminal.
var legend = func() string {
	b := new(strings.Builder)
	for i, m := range markMeanings {
		if i%2 == 0 {
			fmt.Fprintf(b, "\n%s %-39s", m.Name, m.Text)
		} else {
			fmt.Fprintf(b, "%s %s", m.Name, m.Text)
		}
	}
	b.WriteString("\n\n")
	for i, f := range faultMeanings {
		width := 5
		if i > 2 { // the names of two words
			width = 11
		}
		fmt.Fprintf(b, "%-*s  %s\n", width, f.Name, strings.ReplaceAll(f.Text, "\n", "\n       "))
	}
	return b.String()
}()

// Marks returns the letters of the anomalies found in a cell.
func (c *Cell) Marks() string {
	switch {
	case !c.Applies:
		return markNone
	case !c.Done:
		return markOpen
	}
	marks := ""
	for _, l := range letters {
		if c.Anomalies.Of(l.what) > 0 {
			marks += l.letter
		}
	}
	if c.Anomalies.Forever {
		marks += "∞"
	}
	if marks == "" {
		return markGood
	}
	return marks
}

// Widths of the matrix.
const (
	nameWidth = 18
	cellWidth = 6
)

// WriteMatrix writes which discipline fails under which fault, as far as the run got. With
// color it is for a terminal. It writes as many lines as MatrixLines returns.
func (r *Report) WriteMatrix(w io.Writer, color bool) error {
	var b strings.Builder
	for line := range 2 {
		fmt.Fprintf(&b, "%-*s", nameWidth, "")
		for _, f := range r.columns() {
			fmt.Fprintf(&b, "%*s", cellWidth, f.head[line])
		}
		b.WriteString("\n")
	}
	for _, row := range r.Disciplines {
		fmt.Fprintf(&b, "%-*s", nameWidth, row.Name)
		for _, c := range row.Cells {
			b.WriteString(paint(fmt.Sprintf("%*s", cellWidth, c.Marks()), c, color))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// MatrixLines returns how many lines WriteMatrix writes.
func (r *Report) MatrixLines() int { return 2 + len(r.Disciplines) }

// paint makes failures red, good cells green, and those that do not apply grey.
func paint(text string, c *Cell, color bool) string {
	code := "1;31"
	switch {
	case !color || c.Applies && !c.Done:
		return text
	case !c.Applies:
		code = "2"
	case c.Anomalies.Total() == 0:
		code = "32"
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// WriteTable writes the whole report for people.
func (r *Report) WriteTable(w io.Writer, color bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; seed %d\n", r.Redis, r.Seed)
	fmt.Fprintf(&b, "A published second lasts %v ms; heavy load lasts %v s, unscaled.\n\n", r.SecondMS, r.Duration)
	_ = r.WriteMatrix(&b, color)
	b.WriteString(legend)
	for _, t := range []*report.Table{r.numbers(), r.cache()} {
		if len(t.Rows) > 0 {
			b.WriteString("\n")
			_ = t.WriteText(&b)
		}
	}
	fmt.Fprintf(&b, "\nverdict  %s\n", r.Verdict)
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
