package pubsub

import "context"

// Subscription is one subscriber of one channel. Two of the same channel are
// independent of each other.
type Subscription struct {
	hub     *Hub
	channel string
	handler Handler

	// guarded by hub.mu
	attempt  *attempt // the one under way, or the one that succeeded
	conn     *conn    // nil while it has none
	barrier  uint64   // the ping that follows its SUBSCRIBE, 0 when it stands
	refusals int      // of servers, since it stood
	missed   bool     // messages, since it was made or stood
	closed   bool
}

// attempt is one try to make a subscription stand.
type attempt struct {
	over chan struct{}
	err  error // written before over is closed
}

func newAttempt() *attempt { return &attempt{over: make(chan struct{})} }

func (a *attempt) end(err error) {
	a.err = err
	close(a.over)
}

// Wait waits until the subscription stands, and returns nil: whatever is published
// from then on arrives, until the connection is lost. If the attempt that is under
// way fails, Wait returns its error; the hub goes on trying all the same. Wait
// returns [ErrClosed] when the subscription or the hub is closed, and the cause of
// ctx when that ends.
func (s *Subscription) Wait(ctx context.Context) error {
	if s.hub.life.Err() != nil {
		return ErrClosed
	}
	s.hub.mu.Lock()
	a := s.attempt
	s.hub.mu.Unlock()
	select {
	case <-a.over:
		return a.err
	case <-s.hub.life.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the subscription. Its handler is not called after Close has
// returned, unless a call is running.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.conn != nil {
		s.conn.removeLocked(s)
	}
	if s.stoodLocked() {
		s.attempt = newAttempt()
	}
	s.attempt.end(ErrClosed)
}

// stoodLocked reports whether the subscription stands, or did until now.
func (s *Subscription) stoodLocked() bool {
	select {
	case <-s.attempt.over:
		return true
	default:
		return false
	}
}

// standLocked ends the attempt with success, and reports whether messages may have
// been missed before.
func (s *Subscription) standLocked() (missed bool) {
	missed = s.missed
	s.barrier, s.refusals, s.missed = 0, 0, false
	s.attempt.end(nil)
	return missed
}

// failLocked begins another attempt, because the one under way has failed or the
// subscription stands no more.
func (s *Subscription) failLocked(err error) {
	if s.closed {
		return
	}
	if !s.stoodLocked() {
		s.attempt.end(err)
	}
	s.attempt = newAttempt()
	s.missed = true
}
