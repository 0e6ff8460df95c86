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
	"os/signal"
	"syscall"
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

// drainTimeout is how long requests may still run after SIGTERM.
const drainTimeout = 15 * time.Second

func main() {
	zerolog.DurationFieldFormat = zerolog.DurationFormatString // with their units
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// cli is the command line.
type cli struct {
	Serve config   `cmd:"" default:"withargs" help:"Run a node. This is what roomd does if no command is given."`
	Token tokenCmd `cmd:"" help:"Print a token, by which a game client says who it is."`
}

// command is roomd, and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := dispatch(ctx, args, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "roomd:", err)
	}
	return exitCode(err)
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c cli
	parser, err := kong.New(&c, options()...)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return err
	}
	if parsed.Command() == "token" {
		return c.Token.print(stdout)
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

// flagOf is by which flag an operator knows an option that the packages behind check.
var flagOf = map[string]string{
	"AllowOrigins": "--allow-origin", "AdminListen": "--admin-listen", "TrustProxy": "--trust-proxy",
	"MaxFrame": "--max-frame", "Rate": "--rate", "Burst": "--burst",
}

// inFlags names the flag in an error that names an option.
func inFlags(err error) error {
	var invalid *room.InvalidError
	if errors.As(err, &invalid) && flagOf[invalid.Field] != "" {
		return useError{fmt.Errorf("%s %s", flagOf[invalid.Field], invalid.Problem)}
	}
	return err
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

// run serves until ctx ends, and then drains. ready is called when the node
// accepts clients.
func run(ctx context.Context, cfg config, stderr io.Writer, ready func(*node.Node)) error {
	log := newLog(cfg, stderr)
	redis.SetLogger(redisLog{log})
	verifier, err := cfg.verifier(log)
	if err != nil {
		return ofFlag(err)
	}
	secure, err := cfg.secure(log)
	if err != nil {
		return err
	}
	db, err := cfg.redisFlags.open()
	if err != nil {
		return err
	}
	defer db.Close()
	clients := cfg.clients()
	clients.Auth = verifier
	parts := node.Config{
		Listen:   cfg.Listen,
		Insecure: cfg.Insecure,
		TLS:      secure,
		Redis:    db,
		Room:     cfg.rooms(),
		Serve:    clients,
		Log:      log,
	}
	cfg.observe(&parts)
	n, err := node.Start(ctx, parts)
	if err != nil {
		return inFlags(err)
	}
	kept := db.String()
	if db.IsEmbedded() {
		kept = "the embedded Redis, which keeps nothing and serves this node only"
	}
	who := "?user=NAME"
	if verifier != nil {
		who = " with a token"
	}
	log.Info(fmt.Sprintf("ready: connect to %s%s; rooms are kept in %s", n.URL(), who, kept), "node", n.Name())
	if addr := n.AdminAddr(); addr != "" {
		log.Info("operators find metrics and profiles at http://" + addr + "/")
	}
	ready(n)

	select {
	case <-ctx.Done():
	case err := <-n.Failed():
		log.Error("stopped listening", "error", err)
	}
	log.Info("draining: requests are finished, clients told to reconnect, seats kept", "connections", n.Connections())
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := n.Shutdown(patience); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	log.Info("stopped")
	return nil
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
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: plain}
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
