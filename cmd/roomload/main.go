// Command roomload sends players to roomd nodes and proves that the rooms' lists are right. It exits with 0
// only if they are.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"roomd/loadtest/bench"
	"roomd/loadtest/chaos"
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

// wrongFlag names the flag in an error about a field of a configuration. A command's Validate returns it to
// kong, which makes it a ParseError.
func wrongFlag(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%w", err)
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
