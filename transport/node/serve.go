package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/mattn/go-isatty"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room/ratelog"
	"roomd/transport/node/internal/unguarded"
)

// run serves until ctx ends, an operator requests a stop or listening fails, and then drains. It calls ready once the
// node accepts clients.
func run(ctx context.Context, cfg config, stderr io.Writer, ready func(*Node)) error {
	log := newLog(cfg, stderr)
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
	logSettings(log, cfg, db.String())
	logAddresses(log, n, &parts)
	ready(n)
	notify, end := supervise(n, log)
	defer end()

	delay := cfg.DrainDelay
	select {
	case <-ctx.Done():
	case <-n.DrainRequested():
		log.Info("an operator asks this node to stop, by the API of some node")
	case err := <-n.Failed():
		log.Error("stopped listening", "error", err)
		delay = 0
	}
	notify(daemon.SdNotifyStopping, "STATUS=draining",
		fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (delay+2*drainTimeout).Microseconds()))
	return drain(context.WithoutCancel(ctx), delay, n, log)
}

func logAddresses(log *slog.Logger, n *Node, parts *Config) {
	kept := parts.Redis.String()
	if parts.Redis.IsEmbedded() {
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
}

func newLog(cfg config, w io.Writer) *slog.Logger {
	file, isFile := w.(*os.File)
	plain := !isFile || !isatty.IsTerminal(file.Fd())
	w = zerolog.SyncWriter(w) // connections log concurrently
	if cfg.LogFormat == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.DateTime, NoColor: plain}
	}
	level, _ := zerolog.ParseLevel(cfg.LogLevel) // kong has checked it
	return slog.New(zerolog.NewSlogHandler(zerolog.New(w).Level(level)))
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

// catchSignals returns a context that ends at a signal to stop; a second one ends the process at once. Under nohup
// SIGHUP stays ignored.
func catchSignals() (ctx context.Context, release func()) {
	stops := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		stops = append(stops, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), stops...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// supervise reports to systemd (Type=notify) that the node serves clients, and feeds its watchdog until end, unless
// the node has stalled. notify reports further states. Without NOTIFY_SOCKET nothing is reported.
func supervise(n *Node, log *slog.Logger) (notify func(states ...string), end func()) {
	logs := ratelog.NewSet(log, ratelog.Quiet)
	failed := logs.Warn("systemd cannot be told how the node is")
	stuck := logs.Error("the node stands still, and the watchdog is not told otherwise")
	notify = func(states ...string) {
		if _, err := daemon.SdNotify(false, strings.Join(states, "\n")); err != nil {
			failed.Happened(err)
		}
	}
	notify(daemon.SdNotifyReady, "STATUS=serving at "+n.URL())
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		failed.Happened(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	if limit > 0 {
		watching.Go(func() {
			for ctx.Err() == nil {
				if err := n.Alive(); err != nil {
					stuck.Happened(err)
				} else {
					notify(daemon.SdNotifyWatchdog)
				}
				_ = pause.For(ctx, limit/2)
			}
		})
	}
	return notify, func() {
		stop()
		watching.Wait()
		logs.Close()
	}
}

// compare enables the page's comparison with a list without a lock. Call end after the node's shutdown. It does
// nothing if other machines can connect, or players have tokens.
func (c *config) compare(n *Config) (end func()) {
	if n.Serve.Auth != nil || !isLoopback(c.Listen) {
		return func() {}
	}
	client := n.Redis.NewClient()
	lists := unguarded.New(client, c.KeyPrefix, isLoopback)
	n.Unguarded = lists
	return func() {
		lists.Close()
		_ = client.Close()
	}
}
