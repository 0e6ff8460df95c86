package node

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"roomd/room/ratelog"
)

// supervisor tells systemd (Type=notify) how the node is, if NOTIFY_SOCKET says where. Otherwise
// its methods do nothing.
type supervisor struct {
	failed *ratelog.Log // messages that were not sent
	stuck  *ratelog.Log // the node stands still
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

// ready says that the node serves clients, and keeps the watchdog satisfied until close.
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

// reloading says that the configuration is read again, until reloaded.
func (s *supervisor) reloading() { s.notify(daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec()) }

func (s *supervisor) reloaded() { s.notify(daemon.SdNotifyReady) }

// stopping says that the node drains, which takes no longer than limit.
func (s *supervisor) stopping(limit time.Duration, status string) {
	s.notify(daemon.SdNotifyStopping, "STATUS="+status, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", limit.Microseconds()))
}

// close ends the watchdog's messages. It follows ready.
func (s *supervisor) close() {
	close(s.stop)
	<-s.ended
	s.failed.Close()
	s.stuck.Close()
}
