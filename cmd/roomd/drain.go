package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"roomd/transport/node"
)

// drainTimeout is how long requests may still run when the node drains.
const drainTimeout = 15 * time.Second

// untilSignal returns a context that ends with a signal to stop. A second signal ends the
// process at once.
func untilSignal() (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// drain ends the node. For delay it serves as before, so that load balancers notice that
// /readyz fails before anybody is refused.
func drain(ctx context.Context, delay time.Duration, n *node.Node, log *slog.Logger) error {
	if delay > 0 {
		log.Info("stopping: /readyz fails, and clients are served until the drain begins", "drain_delay", delay, "connections", n.Connections())
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
