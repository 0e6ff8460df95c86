// Command roomload sends players at roomd nodes and proves that the rooms' lists
// are right. It ends with 0 only when they are.
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
)

const description = `Sends players at roomd nodes and proves that the rooms' lists are right.

It ends with 0 only when the verdict is "consistent", with 2 if it was started wrongly, with 1
otherwise.`

// cli is the command line. Each command has a Run method.
type cli struct {
	Run   runCmd   `cmd:"" help:"Players join and leave at random over real WebSockets; afterwards every list is checked."`
	Bench benchCmd `cmd:"" help:"Measures roomd beside the article's lock and lock-free Redis on one Redis in one run, and checks the lists of each."`
	Lab   labCmd   `cmd:"" help:"The published ways to use a Redis lock, and roomd, under faults, with their anomalies counted."`
}

// errInconsistent ends the program with 1 after its report has said why.
var errInconsistent = errors.New("the lists are not right")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "roomload:", err)
		os.Exit(exitCode(err))
	}
}

// exitCode returns 2 if the command line could not be understood, and otherwise 1.
func exitCode(err error) int {
	var parse *kong.ParseError
	if errors.As(err, &parse) {
		return 2
	}
	return 1
}

// streams is where commands write to.
type streams struct{ stdout, stderr io.Writer }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	redis.SetLogger(&logging.VoidLogger{}) // what it says, callers hear as errors
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
