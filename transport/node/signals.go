package node

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signals are what an operator sends to the process.
type signals struct {
	ctx     context.Context // ends with a signal to stop
	stop    context.CancelFunc
	hangups chan os.Signal // each SIGHUP, several at once as one
}

// catchSignals begins to wait for signals. A second one to stop ends the process at once.
func catchSignals() *signals {
	s := &signals{hangups: make(chan os.Signal, 1)}
	s.ctx, s.stop = signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(s.ctx, s.stop)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(s.hangups, syscall.SIGHUP)
	}
	return s
}

// stopOnHangup makes SIGHUP a signal to stop.
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

// keepHangups returns a channel of each SIGHUP, also where nohup has had it ignored. They stop nothing then.
func (s *signals) keepHangups() <-chan os.Signal {
	signal.Notify(s.hangups, syscall.SIGHUP)
	return s.hangups
}

// release gives signals their own effects again.
func (s *signals) release() {
	s.stop()
	signal.Stop(s.hangups)
}
