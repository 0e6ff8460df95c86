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

// letters are the marks of the anomalies, in this order.
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
L an acknowledged join or leave is lost  P a phantom: in the list after a leave or a refused join
T a user is in the list twice            2 two hold the lock at once, and write
D somebody else's lock is deleted        S the room is stuck until all waiters give up; S∞ for ever

pause  the holder is stopped past the TTL: between SETNX and EXPIRE, before its write, before its
       release, and within its release between check and DEL
crash  the holder dies: between SETNX and EXPIRE, with the lock, after its read, after its write
lost   a reply is lost and the client sends the command again: taking the lock, the write, the release
same token   two callers draw the same random number, and the first is stopped before its release
just gone    nothing fails, but a lock is freed between a waiter's SETNX and its GET
take over    two callers find a dead holder's time past
clock ahead  a caller's clock is ahead by more than the TTL
heavy load   many callers, and no fault
`

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
	r.writeNumbers(&b)
	r.writeCache(&b)
	fmt.Fprintf(&b, "\nverdict  %s\n", r.Verdict)
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
