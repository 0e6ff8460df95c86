package lab

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

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
	{anomaly.Kept, "K"},
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
		{Name: "2", Text: "two hold the lock at once, and write; without a lock: a dirty read"},
		{Name: "D", Text: "somebody else's lock is deleted"},
		{Name: "K", Text: "the holder releases its lock, and the lock stays"},
		{Name: "S", Text: "the room is stuck until all waiters give up"},
		{Name: "∞", Text: "for ever: the lock stays, and does not expire"},
		{Name: "( )", Text: "a quiet machine does not show it: chance, or this one was busy"},
	}
	faultMeanings = []report.Fact{
		{Name: "pause", Text: "the holder is stopped past the TTL: between SETNX and EXPIRE, before its write, before its\n" +
			"release, and within its release between check and DEL"},
		{Name: "crash", Text: "the holder dies: between SETNX and EXPIRE, with the lock, after its read, after its write"},
		{Name: "lost", Text: "a reply is lost and the client sends the command again: taking the lock, the write, the release"},
		{Name: "late release", Text: "the holder releases when its lock has less than half a second left"},
		{Name: "same token", Text: "two callers draw the same value: a random number, or uniqid in the same microsecond"},
		{Name: "just gone", Text: "nothing fails, but a lock is freed between a waiter's SETNX and its GET"},
		{Name: "take over", Text: "two callers find a dead holder's time past"},
		{Name: "clock ahead", Text: "a caller's clock is ahead by more than the TTL"},
		{Name: "fail over", Text: "Redis fails over before the holder's write, and the lock, not replicated yet, is gone"},
		{Name: "heavy load", Text: "many callers, and no fault"},
	}
)

// legend explains the matrix in a terminal.
var legend = func() string {
	b := new(strings.Builder)
	for i, m := range markMeanings {
		if i%2 == 0 {
			fmt.Fprintf(b, "\n%-3s %-49s", m.Name, m.Text)
		} else {
			fmt.Fprintf(b, " %-3s %s", m.Name, m.Text)
		}
	}
	b.WriteString("\n\n")
	for i, f := range faultMeanings {
		width := 5
		if i > 2 { // the names of two words
			width = 12
		}
		fmt.Fprintf(b, "%-*s  %s\n", width, f.Name, strings.ReplaceAll(f.Text, "\n", "\n       "))
	}
	return trailing.ReplaceAllString(b.String(), "\n")
}()

var trailing = regexp.MustCompile(` +\n`)

// quietText is the matrix on a machine that does nothing else, as WriteMatrix writes it.
//
//go:embed quiet.txt
var quietText string

// quiet are its marks, by discipline, in the order of the faults.
var quiet = func() map[string][]string {
	marks := make(map[string][]string)
	for line := range strings.Lines(quietText) {
		if words := strings.Fields(line); len(words) == 1+len(faults) {
			marks[words[0]] = words[1:]
		}
	}
	return marks
}()

// byChance returns the anomalies of the cell that a quiet machine does not show.
func (c *Cell) byChance() (list []string) {
	marks := quiet[c.Discipline]
	at := slices.IndexFunc(faults, func(f *fault) bool { return f.name == c.Fault })
	if c.Discipline == roomd.name || at < 0 || at >= len(marks) {
		return nil
	}
	for _, l := range letters {
		if c.Anomalies.Of(l.what) > 0 && !strings.Contains(marks[at], l.letter) {
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
		switch {
		case c.Anomalies.Of(l.what) == 0:
		case slices.Contains(c.ByChance, l.what):
			chance += l.letter
		default:
			marks += l.letter
		}
	}
	if c.Anomalies.Forever {
		marks += "∞"
	}
	if chance != "" {
		marks += "(" + chance + ")"
	}
	if marks == "" {
		return markGood
	}
	return marks
}

// nameWidth is that of the names of disciplines.
const nameWidth = 21

// words are the two words of the fault's name, which stand over its column.
func (f *fault) words() [2]string {
	first, second, _ := strings.Cut(f.name, "-")
	return [2]string{first, second}
}

// width returns that of the fault's column.
func (r *Report) width(column int, f *fault) int {
	words := f.words()
	width := max(len(words[0]), len(words[1]))
	for _, row := range r.Disciplines {
		width = max(width, utf8.RuneCountInString(row.Cells[column].Marks()))
	}
	return 1 + width
}

// WriteMatrix writes which discipline fails under which fault, as far as the run got. With
// color it is for a terminal. It writes as many lines as MatrixLines returns.
func (r *Report) WriteMatrix(w io.Writer, color bool) error {
	var b strings.Builder
	for line := range 2 {
		fmt.Fprintf(&b, "%-*s", nameWidth, "")
		for i, f := range r.columns() {
			fmt.Fprintf(&b, "%*s", r.width(i, f), f.words()[line])
		}
		b.WriteString("\n")
	}
	for _, row := range r.Disciplines {
		fmt.Fprintf(&b, "%-*s", nameWidth, row.Name)
		for i, c := range row.Cells {
			b.WriteString(paint(fmt.Sprintf("%*s", r.width(i, c.fault), c.Marks()), c, color))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// MatrixLines returns how many lines WriteMatrix writes.
func (r *Report) MatrixLines() int { return 2 + len(r.Disciplines) }

// articleWidth is that of the names of articles.
const articleWidth = 24

// choices says what the articles leave open.
const choices = "The articles leave open, and the lab chose: a list is JSON, a leave is a join the other way round, and a player\n" +
	"asks again every 5 ms where the article's caller gives up."

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
	b.WriteString("\n" + choices + "\n")
	for _, row := range r.Disciplines {
		fmt.Fprintf(&b, "%-*s %-*s %s\n", nameWidth, row.Name, articleWidth, row.Article, row.About)
	}
	for _, t := range []*report.Table{r.numbers(), r.cache(), r.cacheFaults(), r.drawn()} {
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
