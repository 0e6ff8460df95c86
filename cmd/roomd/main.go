// Command roomd is a node: a server that game clients connect to, which keeps
// rooms in Redis together with all other nodes on it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/room/redisurl"
	"roomd/transport"
	"roomd/transport/node"
)

// drainTimeout is how long requests may still run after SIGTERM.
const drainTimeout = 15 * time.Second

func main() {
	var cfg config
	kong.Parse(&cfg, options()...)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, cfg, os.Stderr, func(*node.Node) {}); err != nil {
		fmt.Fprintln(os.Stderr, "roomd:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then drains. ready is called when the node
// accepts clients.
func run(ctx context.Context, cfg config, stderr io.Writer, ready func(*node.Node)) error {
	log := newLog(cfg, stderr)
	redis.SetLogger(redisLog{log})
	db, err := redisurl.Open(cfg.Redis)
	if err != nil {
		return err
	}
	defer db.Close()
	n, err := node.Start(ctx, node.Config{
		Listen:   cfg.Listen,
		Insecure: cfg.Insecure,
		Redis:    db,
		Room:     cfg.rooms(),
		Serve:    transport.Options{AllowOrigins: cfg.AllowOrigin, Grace: cfg.grace()},
		Log:      log,
	})
	if err != nil {
		return err
	}
	kept := db.String()
	if db.IsEmbedded() {
		kept = "the embedded Redis, which keeps nothing and serves this node only"
	}
	log.Info().Str("node", n.Name()).Msgf("ready: connect to %s?user=NAME; rooms are kept in %s", n.URL(), kept)
	ready(n)

	select {
	case <-ctx.Done():
	case err := <-n.Failed():
		log.Error().Err(err).Msg("stopped listening")
	}
	log.Info().Int("connections", n.Connections()).Msg("draining: requests are finished, clients told to reconnect, seats kept")
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := n.Shutdown(patience); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	log.Info().Msg("stopped")
	return nil
}

func newLog(cfg config, w io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	if cfg.LogFormat == "console" {
		file, isFile := w.(*os.File)
		plain := !isFile || !isatty.IsTerminal(file.Fd())
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: plain}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// redisLog takes what go-redis has to say, which callers hear as errors as well.
type redisLog struct{ log zerolog.Logger }

func (l redisLog) Printf(_ context.Context, format string, args ...any) {
	l.log.Debug().Msgf(format, args...)
}
