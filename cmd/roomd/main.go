// Command roomd is a node: a server that game clients connect to, which keeps
// rooms in Redis together with all other nodes on it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/transport/node"
	"roomd/transport/reload"
)

func main() {
	zerolog.DurationFieldFormat = zerolog.DurationFormatString // with their units
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// cli is the command line.
type cli struct {
	Serve config   `cmd:"" default:"withargs" help:"Run a node. This is what roomd does if no command is given."`
	Check checkCmd `cmd:"" help:"Try a configuration, and say what to change."`
	Token tokenCmd `cmd:"" help:"Print a token, by which a game client says who it is."`

	Completion completionCmd    `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Version    kong.VersionFlag `env:"-" help:"Print the version, the revision it was built from, and Go's version."`
}

// command is roomd, and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()
	err := dispatch(ctx, args, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "roomd:", err)
	}
	return exitCode(err)
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c cli
	parser, err := kong.New(&c, append(options(), kong.Writers(stdout, stderr), kong.Vars{"version": version()})...)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return err
	}
	switch command, _, _ := strings.Cut(parsed.Command(), " "); command {
	case "check":
		return c.Check.run(ctx, stdout)
	case "token":
		return c.Token.print(stdout)
	case "completion":
		return c.Completion.print(parsed.Model, stdout)
	}
	return run(ctx, c.Serve, stderr, func(*node.Node) {})
}

// What roomd ends with.
const (
	exitFailed   = 1
	exitWrongUse = 2
)

// useError says that a flag has a value that cannot be used.
type useError struct{ error }

func (e useError) Unwrap() error { return e.error }

// ofFlag makes a useError of what is wrong with the value of a flag, unless that is a file: its
// content may be otherwise next time.
func ofFlag(err error) error {
	if errors.As(err, new(*reload.FileError)) {
		return err
	}
	return useError{err}
}

func exitCode(err error) int {
	var parse *kong.ParseError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &parse), errors.As(err, new(useError)), errors.Is(err, room.ErrInvalid), errors.Is(err, lockmgr.ErrInvalid):
		return exitWrongUse
	}
	return exitFailed
}

// run serves until ctx ends, or an operator asks for that, and then drains. ready is called when the node
// accepts clients.
func run(ctx context.Context, cfg config, stderr io.Writer, ready func(*node.Node)) error {
	log := newLog(cfg, stderr)
	redis.SetLogger(redisLog{log})
	parts, err := nodeConfig(cfg, log)
	if err != nil {
		return err
	}
	db := parts.Redis
	defer db.Close()
	defer cfg.compare(&parts)()
	n, err := node.Start(ctx, parts)
	switch {
	case err != nil && ctx.Err() != nil:
		log.Info("stopped before it was ready")
		return nil
	case err != nil:
		return inFlags(err)
	}
	if err := logSettings(log, cfg, db.String()); err != nil {
		return errors.Join(err, n.Shutdown(ctx))
	}
	kept := db.String()
	if db.IsEmbedded() {
		kept = "the embedded Redis, which keeps nothing and serves this node only"
	}
	who := "?user=NAME"
	if parts.Serve.Auth != nil {
		who = " with a token"
	}
	log.Info(fmt.Sprintf("ready: connect to %s%s; rooms are kept in %s", n.URL(), who, kept), "node", n.Name())
	log.Info("people find a table to sit down at on http" + strings.TrimSuffix(strings.TrimPrefix(n.URL(), "ws"), "ws"))
	if addr := n.AdminAddr(); addr != "" {
		log.Info("operators look at http://" + addr + "/admin; metrics and profiles are at http://" + addr + "/")
	}
	ready(n)
	super := newSupervisor(log)
	super.ready(n)
	defer super.close()

	delay := cfg.DrainDelay
	select {
	case <-ctx.Done():
	case <-n.DrainRequested():
		log.Info("an operator asks this node to stop, by the API of some node")
	case err := <-n.Failed():
		log.Error("stopped listening", "error", err)
		delay = 0
	}
	super.stopping(delay+2*drainTimeout, "draining")
	return drain(context.WithoutCancel(ctx), delay, n, log)
}

func newLog(cfg config, w io.Writer) *slog.Logger {
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	file, isFile := w.(*os.File)
	plain := !isFile || !isatty.IsTerminal(file.Fd())
	w = zerolog.SyncWriter(w) // connections log at the same time
	if cfg.LogFormat == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.DateTime, NoColor: plain}
	}
	return slog.New(zerolog.NewSlogHandler(zerolog.New(w).Level(level)))
}

// redisLog takes what go-redis has to say, which callers hear as errors as well.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(_ context.Context, format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}
