package lab

import (
	"fmt"
	"io"
	"strings"

	"roomd/loadtest/lab/anomaly"
)

// The marks of a cell.
const (
	markGood = "·"
	markNone = "–"
	markOpen = " "
)

// letters stand for what was found, in this order.
var letters = []struct{ what, letter string }{
	{anomaly.Lost, "L"},
	{anomaly.Phantom, "P"},
	{anomaly.Duplicate, "T"},
	{anomaly.TwoHolders, "2"},
	{anomaly.Deleted, "D"},
	{anomaly.Stuck, "S"},
}

// legend explains the matrix.
const legend = `
· nothing wrong                          – the discipline has no such step
L an acknowledged join or leave is lost  P a phantom: in the list, and told not to be
T a user stands in the list twice        2 two hold the lock at once, and write
D someone else's lock is deleted         S the room is stuck until all who wait have given up; S∞ for ever

pause  the holder is stopped past the TTL: between SETNX and EXPIRE, before its write, before it
       frees the lock, between the check and the DEL of that
crash  the holder dies: between SETNX and EXPIRE, with the lock, after its read, after its write
lost   a reply is lost, and the client sends the command again: the one that took the lock, the
       write, the one that freed the lock
same token   two draw the same random number, and the first is stopped before it frees the lock
just gone    nothing fails, but a lock is freed between a waiter's SETNX and its GET
take over    two find a dead holder's time past      clock ahead  a caller's clock, by more than the TTL
heavy load   many callers, and nothing else happens
`

// Marks returns what was found in a cell, a letter for each kind.
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

// WriteMatrix writes who fails where, as far as it is known. With color it is for
// a terminal. It is as many lines as MatrixLines says.
func (r *Report) WriteMatrix(w io.Writer, color bool) error {
	var b strings.Builder
	for line := range 2 {
		b.WriteString(pad("", nameWidth))
		if len(r.Disciplines) > 0 {
			for _, c := range r.Disciplines[0].Cells {
				b.WriteString(padLeft(c.fault.head[line], cellWidth))
			}
		}
		b.WriteString("\n")
	}
	for _, row := range r.Disciplines {
		b.WriteString(pad(row.Name, nameWidth))
		for _, c := range row.Cells {
			b.WriteString(paint(padLeft(c.Marks(), cellWidth), c, color))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// MatrixLines is how many lines WriteMatrix writes.
func (r *Report) MatrixLines() int { return 2 + len(r.Disciplines) }

// paint makes failures red, what is good green, and what does not apply grey.
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
	fmt.Fprintf(&b, "A published second lasts %v ms; under heavy load, which goes on for %v s, nothing is scaled.\n\n", r.SecondMS, r.Duration)
	_ = r.WriteMatrix(&b, color)
	b.WriteString(legend)
	r.writeNumbers(&b)
	r.writeCache(&b)
	fmt.Fprintf(&b, "\nverdict  %s\n", r.Verdict)
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
