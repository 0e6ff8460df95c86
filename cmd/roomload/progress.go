package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"roomd/loadtest"
)

// plainInterval is the time between two lines of progress where no terminal
// shows a bar.
const plainInterval = 5 * time.Second

// newProgress returns what shows a run's progress on w, and what ends the show.
func newProgress(w io.Writer, total time.Duration) (show func(loadtest.Progress), done func()) {
	describe := func(p loadtest.Progress) string {
		rate := float64(p.Actions) / max(p.Elapsed.Seconds(), 0.001)
		return fmt.Sprintf("%d actions, %.0f/s, %d violations", p.Actions, rate, p.Violations)
	}
	if f, ok := w.(*os.File); !ok || !isatty.IsTerminal(f.Fd()) {
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
