package node

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

type signals struct {
	ctx     context.Context // ends at a signal to stop
	stop    context.CancelFunc
	hangups chan os.Signal // each SIGHUP; several at once count as one
}

// catchSignals starts waiting for signals. A second signal to stop ends the process at once.
func catchSignals() *signals {
	s := &signals{hangups: make(chan os.Signal, 1)}
	s.ctx, s.stop = signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(s.ctx, s.stop)
	if !signal.Ignored(syscall.SIGHUP) { // ignored under nohup
		signal.Notify(s.hangups, syscall.SIGHUP)
	}
	return s
}

func (s *signals) stopOnHangup() {
	go func() {
		select {
		case <-s.hangups:
			s.stop()
		case <-s.ctx.Done():
		}
		signal.Stop(s.hangups)
	}()
}

// keepHangups returns a channel of SIGHUPs, even under nohup. They then stop nothing.
func (s *signals) keepHangups() <-chan os.Signal {
	signal.Notify(s.hangups, syscall.SIGHUP)
	return s.hangups
}

func (s *signals) release() {
	s.stop()
	signal.Stop(s.hangups)
}
