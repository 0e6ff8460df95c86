// Command roomload sends players to roomd nodes and proves that the rooms' lists are right. It exits with 0
// only if they are.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"roomd/loadtest"
	"roomd/loadtest/bench"
	"roomd/loadtest/chaos"
	"roomd/loadtest/lab"
)

const description = `Sends players at roomd nodes and proves that the rooms' lists are right.

It ends with 0 if nothing was wrong, with 1 if something was wrong or failed, and with 2 if
it was started wrongly. Reports go to standard output, progress to standard error.

Every flag is also an environment variable: --capacity is ROOMLOAD_CAPACITY.`

// cli is the command line. Each command has a Run method.
type cli struct {
	Run     runCmd     `cmd:"" help:"Players join and leave at random over real WebSockets; every reply, event and list is checked."`
	Bench   benchCmd   `cmd:"" help:"Measures roomd beside the article's lock and beside Redis without a lock, and checks the lists of each."`
	Compare compareCmd `cmd:"" help:"Measures two revisions of roomd by turns, and prints how much faster the second is."`
	Lab     labCmd     `cmd:"" help:"Runs the published Redis locks, and roomd, under faults, and counts what goes wrong."`
	Chaos   chaosCmd   `cmd:"" help:"Disturbs nodes and their Redis while players play, and proves that nothing is lost that must not be."`
	Audit   auditCmd   `cmd:"" help:"Replays the journals of all rooms in a Redis, while nodes use it, and says what does not fit."`
	Conform conformCmd `cmd:"" help:"Plays scenarios to a client in any language, and says what it does wrong."`
}

// The exit codes besides 0.
const (
	exitFailed   = 1
	exitWrongUse = 2
)

// errNotConsistent ends the program after its report.
var errNotConsistent = errors.New("something was lost, or wrong, or could not be decided")

func main() {
	bench.Main() // is a server of the bench, which needs a process of its own
	chaos.Main() // is a node of chaos
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "roomload:", err)
		os.Exit(exitCode(err))
	}
}

func exitCode(err error) int {
	var parse *kong.ParseError
	if errors.As(err, &parse) {
		return exitWrongUse
	}
	return exitFailed
}

// streams are the outputs of commands.
type streams struct{ stdout, stderr io.Writer }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	redis.SetLogger(&logging.VoidLogger{}) // go-redis also returns them as errors
	var c cli
	parser, err := kong.New(&c,
		kong.Name("roomload"),
		kong.Description(description),
		kong.DefaultEnvars("ROOMLOAD"),
		kong.Vars{"mix": strings.Join(loadtest.MixNames, ", ")},
		kong.Writers(stdout, stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(streams{stdout, stderr}),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}

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
			if stays || at/plainInterval > last/plainInterval {
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
