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

// plainInterval is the time between two lines of progress without a terminal.
const plainInterval = 5 * time.Second

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// newStatus returns a function that shows the progress of a command on w, and one that ends it. On a terminal
// it overwrites one line; elsewhere it writes a line every plainInterval. A line that stays is not overwritten.
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

// Without wrapping, the terminal cuts long lines, so the number of lines is known.
const (
	noWrap = "\x1b[?7l"
	wrap   = "\x1b[?7h"
)

// newLabProgress returns a function that shows the growing matrix on w, and one that removes it. Without a
// terminal it writes a line for each cell.
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
