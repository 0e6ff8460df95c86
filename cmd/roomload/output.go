package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"roomd/loadtest/lab"
)

// outputFlags say where a command writes its report.
type outputFlags struct {
	JSON string `name:"json" placeholder:"FILE" help:"Write the report as JSON; - is standard output, and the table then goes to standard error."`
	HTML string `name:"html" placeholder:"FILE" help:"Write the report as a web page."`
}

// table returns the stream for the readable report.
func (o outputFlags) table(std streams) io.Writer {
	if o.JSON == "-" {
		return std.stderr
	}
	return std.stdout
}

// print prints a report, and writes its files. It returns errNotConsistent unless good.
func (o outputFlags) print(std streams, good bool, report interface {
	WriteTable(io.Writer) error
	WriteHTML(io.Writer) error
}) error {
	if err := report.WriteTable(o.table(std)); err != nil {
		return err
	}
	if err := o.write(report, std.stdout); err != nil || good {
		return err
	}
	return errNotConsistent
}

// write writes a report as JSON and as a page; see writeFile.
func (o outputFlags) write(report interface{ WriteHTML(io.Writer) error }, stdout io.Writer) error {
	if err := writeJSON(o.JSON, stdout, report); err != nil {
		return err
	}
	if err := writeFile(o.HTML, stdout, report.WriteHTML); err != nil {
		return fmt.Errorf("html: %w", err)
	}
	return nil
}

// writeJSON writes a report as JSON; see writeFile.
func writeJSON(name string, stdout io.Writer, report any) error {
	err := writeFile(name, stdout, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(report)
	})
	if err != nil {
		return fmt.Errorf("json: %w", err)
	}
	return nil
}

// writeFile writes to the named file, to stdout if the name is -, and nowhere if it is empty.
func writeFile(name string, stdout io.Writer, write func(io.Writer) error) error {
	switch name {
	case "":
		return nil
	case "-":
		return write(stdout)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

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
