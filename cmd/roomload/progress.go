package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"roomd/loadtest"
	"roomd/loadtest/lab"
)

// plainInterval is the time between two lines of progress where there is no terminal for
// a bar.
const plainInterval = 5 * time.Second

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// newProgress returns a function that shows a run's progress on w, and one that ends the
// display.
func newProgress(w io.Writer, total time.Duration) (show func(loadtest.Progress), done func()) {
	describe := func(p loadtest.Progress) string {
		rate := float64(p.Actions) / max(p.Elapsed.Seconds(), 0.001)
		return fmt.Sprintf("%d actions, %.0f/s, %d violations", p.Actions, rate, p.Violations)
	}
	if !isTerminal(w) {
		var last time.Duration
		return func(p loadtest.Progress) {
			if p.Elapsed-last >= plainInterval {
				last = p.Elapsed
				fmt.Fprintf(w, "%3.0f s of %.0f s: %s\n", p.Elapsed.Seconds(), total.Seconds(), describe(p))
			}
		}, func() {}
	}
	bar := progressbar.NewOptions64(total.Milliseconds(),
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	)
	return func(p loadtest.Progress) {
		bar.Describe(describe(p))
		_ = bar.Set64(min(p.Elapsed.Milliseconds(), total.Milliseconds()-1))
	}, func() { _ = bar.Finish() }
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
