package pubsub

import (
	"context"

	"roomd/lockmgr/redisconn/pause"
)

// Subscription is one subscriber of one channel. Two subscriptions of the same channel are independent.
type Subscription struct {
	hub     *Hub
	channel string
	handler Handler

	// guarded by hub.mu
	attempt    *attempt      // the one under way, or the one that succeeded
	conn       *conn         // nil without one
	unanswered uint64        // the ping after its SUBSCRIBE; 0 once answered
	refusals   int           // how often servers have refused it since it was active
	denied     pause.Backoff // between attempts while the user lacks the right
	missed     bool          // messages may have been lost since it was made or last active
	closed     bool
}

// attempt is one attempt to make a subscription active.
type attempt struct {
	over chan struct{}
	err  error // written before over is closed
}

func newAttempt() *attempt { return &attempt{over: make(chan struct{})} }

func (a *attempt) end(err error) {
	a.err = err
	close(a.over)
}

// Wait waits until the subscription is active. After it has returned nil, the subscription gets all messages
// published from then on, until the connection is lost. If the current attempt fails, Wait returns its error,
// and the hub tries again. Wait returns [ErrClosed] when the subscription or the hub is closed, and the cause
// of ctx when ctx ends.
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

// IsActive reports whether the subscription is active, as far as the hub knows; see Wait.
func (s *Subscription) IsActive() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.life.Err() == nil && !s.closed && s.wasActiveLocked()
}

// Close ends the subscription. It does not wait for a running call of the handler.
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
	if s.wasActiveLocked() {
		s.attempt = newAttempt()
	}
	s.attempt.end(ErrClosed)
}

func (s *Subscription) wasActiveLocked() bool {
	select {
	case <-s.attempt.over:
		return true
	default:
		return false
	}
}

// activateLocked ends the attempt with success, and reports whether messages may have been lost before.
func (s *Subscription) activateLocked() (missed bool) {
	missed = s.missed
	s.unanswered, s.refusals, s.missed = 0, 0, false
	s.denied.Reset()
	s.attempt.end(nil)
	return missed
}

// failLocked starts another attempt, because the current one has failed, or the subscription is no longer active.
func (s *Subscription) failLocked(err error) {
	if s.closed {
		return
	}
	if !s.wasActiveLocked() {
		s.attempt.end(err)
	}
	s.attempt = newAttempt()
	s.missed = true
}
