package node

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"roomd/room/ratelog"
)

// supervisor reports the node's state to systemd (Type=notify). Without NOTIFY_SOCKET its methods do nothing.
type supervisor struct {
	failed *ratelog.Log // unsent messages
	stuck  *ratelog.Log // the node has stalled
	stop   chan struct{}
	ended  chan struct{}
}

func newSupervisor(log *slog.Logger) *supervisor {
	return &supervisor{
		failed: ratelog.New(log, slog.LevelWarn, "systemd cannot be told how the node is", ratelog.Quiet),
		stuck: ratelog.New(log, slog.LevelError, "the node stands still, and the watchdog is not told otherwise",
			ratelog.Quiet),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
}

func (s *supervisor) notify(states ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(states, "\n")); err != nil {
		s.failed.Happened(err)
	}
}

// ready reports that the node serves clients, and feeds the watchdog until close.
func (s *supervisor) ready(n *Node) {
	s.notify(daemon.SdNotifyReady, "STATUS=serving at "+n.URL())
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.failed.Happened(err)
	}
	go func() {
		defer close(s.ended)
		if limit > 0 {
			s.watch(limit/2, n)
		}
	}()
}

func (s *supervisor) watch(every time.Duration, n *Node) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := n.Alive(); err != nil {
			s.stuck.Happened(err)
		} else {
			s.notify(daemon.SdNotifyWatchdog)
		}
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
	}
}

// reloading reports that the configuration is read again, until reloaded.
func (s *supervisor) reloading() { s.notify(daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec()) }

func (s *supervisor) reloaded() { s.notify(daemon.SdNotifyReady) }

// stopping reports that the node drains, for limit at most.
func (s *supervisor) stopping(limit time.Duration, status string) {
	s.notify(daemon.SdNotifyStopping, "STATUS="+status, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", limit.Microseconds()))
}

// close stops feeding the watchdog. Call it after ready.
func (s *supervisor) close() {
	close(s.stop)
	<-s.ended
	s.failed.Close()
	s.stuck.Close()
}
