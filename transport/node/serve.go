package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// run serves until ctx ends or an operator requests a stop, and then drains. It calls ready once the node accepts
// clients.
func run(ctx context.Context, cfg config, stderr io.Writer, ready func(*Node)) error {
	log, level := newLog(cfg, stderr)
	redis.SetLogger(redisLog{log})
	parts, err := nodeConfig(cfg, log)
	if err != nil {
		return err
	}
	db := parts.Redis
	defer db.Close()
	defer cfg.compare(&parts)()
	n, err := Start(ctx, parts)
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
	cfg.file.warn(log)
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

	running := &reloader{cfg: cfg, parts: parts, node: n, level: level, log: log}
	failed := running.serve(ctx, super)
	delay := running.cfg.DrainDelay
	if failed {
		delay = 0
	}
	super.stopping(delay+2*drainTimeout, "draining")
	return drain(context.WithoutCancel(ctx), delay, n, log)
}

// newLog returns a log, and its level, which may be set at any time.
func newLog(cfg config, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	file, isFile := w.(*os.File)
	plain := !isFile || !isatty.IsTerminal(file.Fd())
	w = zerolog.SyncWriter(w) // connections log concurrently
	if cfg.LogFormat == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.DateTime, NoColor: plain}
	}
	level := new(slog.LevelVar)
	level.Set(cfg.level())
	return slog.New(leveled{zerolog.NewSlogHandler(zerolog.New(w)), level}), level
}

func (f *operateFlags) level() slog.Level {
	return map[string]slog.Level{"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "warn": slog.LevelWarn,
		"error": slog.LevelError}[f.LogLevel]
}

type leveled struct {
	slog.Handler
	level *slog.LevelVar
}

func (l leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level.Level() }

func (l leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{l.Handler.WithAttrs(attrs), l.level}
}

func (l leveled) WithGroup(name string) slog.Handler {
	return leveled{l.Handler.WithGroup(name), l.level}
}

// redisLog receives go-redis' messages. Callers get the same as errors.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(_ context.Context, format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

const drainTimeout = 15 * time.Second

// drain stops the node. For delay it serves as before, so that load balancers see /readyz fail before clients are
// refused.
func drain(ctx context.Context, delay time.Duration, n *Node, log *slog.Logger) error {
	if delay > 0 {
		log.Info("stopping: /readyz fails, and clients are served until the drain begins", "drain_delay", delay,
			"connections", n.Connections())
		n.Retire()
		select {
		case <-time.After(delay):
		case err := <-n.Failed():
			log.Error("stopped listening", "error", err)
		}
	}
	log.Info("draining: requests are finished, clients told to reconnect, seats kept", "connections", n.Connections())
	patience, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := n.Shutdown(patience); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	log.Info("stopped")
	return nil
}
