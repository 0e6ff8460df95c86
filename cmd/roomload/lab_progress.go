package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"

	"roomd/loadtest/lab"
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Lines that do not fit are cut, so that the number of lines stays known.
const (
	noWrap = "\x1b[?7l"
	wrap   = "\x1b[?7h"
)

// newLabProgress returns what shows the matrix on w while it fills, and what takes
// it away. Where no terminal can redraw it, each cell is a line.
func newLabProgress(w io.Writer) (show func(*lab.Report, *lab.Cell), done func()) {
	if !isTerminal(w) {
		return func(_ *lab.Report, c *lab.Cell) {
			fmt.Fprintf(w, "%-18s %-14s %s\n", c.Discipline, c.Fault, c.Marks())
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
			lines = r.MatrixLines()
			_, _ = io.WriteString(w, noWrap+frame.String()+wrap)
		}
	}, clear
}
