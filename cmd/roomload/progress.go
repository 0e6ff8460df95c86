package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"roomd/loadtest/lab"
)

// plainInterval is the time between two lines of progress where there is no terminal for
// a bar.
const plainInterval = 5 * time.Second

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// newStatus returns a function that shows on w how far a command is, and one that ends that. A terminal has one line,
// which is written again and again; elsewhere lines come plainInterval apart. A line that stays is one by itself.
func newStatus(w io.Writer) (show func(at time.Duration, stays bool, line string), done func()) {
	if !isTerminal(w) {
		var last time.Duration
		return func(at time.Duration, stays bool, line string) {
			if stays || at-last >= plainInterval {
				last = at
				fmt.Fprintln(w, line)
			}
		}, func() {}
	}
	return func(_ time.Duration, stays bool, line string) {
		line = "\r\x1b[K" + noWrap + line + wrap
		if stays {
			line += "\n"
		}
		fmt.Fprint(w, line)
	}, func() { fmt.Fprint(w, "\r\x1b[K") }
}

// Without wrapping the terminal cuts long lines, so that the number of lines is known.
const (
	noWrap = "\x1b[?7l"
	wrap   = "\x1b[?7h"
)

// newLabProgress returns a function that shows the matrix on w while it fills, and one
// that removes it. Where there is no terminal to redraw it, each cell is a line.
func newLabProgress(w io.Writer) (show func(*lab.Report, *lab.Cell), done func()) {
	if !isTerminal(w) {
		return func(_ *lab.Report, c *lab.Cell) {
			fmt.Fprintf(w, "%-21s %-14s %s\n", c.Discipline, c.Fault, c.Marks())
		}, func() {}
	}
	lines := 0
	clear := func() {
		if lines > 0 {
			fmt.Fprintf(w, "\x1b[%dA\x1b[J", lines)
		}
	}
	return func(r *lab.Report, _ *lab.Cell) {
		var frame strings.Builder
		if err := r.WriteMatrix(&frame, true); err == nil {
			clear()
			lines = strings.Count(frame.String(), "\n")
			_, _ = io.WriteString(w, noWrap+frame.String()+wrap)
		}
	}, clear
}
