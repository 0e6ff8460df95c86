package lockmgr

import (
	"context"
	"fmt"
	"time"
)

// Acquire asks for the lock until the token has it. ask is called at once, and again after
// a poll (Options.Poll), in case a wake-up was lost; it reports whether the token has the
// lock now. In between Acquire waits for the wake-up that says so.
//
// It returns nil when the token was given the lock: for the TTL if ask said so, and for a
// claim if a wake-up did. That may be over by now, so the script that writes has to check
// the token. Otherwise it returns the error of ask; the cause of ctx together with [ErrHeld]; or
// [ErrClosed]. After an error the token may have the lock, or wait in the queue: call
// [Slot.Leave].
func (s *Slot) Acquire(ctx context.Context, ask func(ctx context.Context) (held bool, err error)) error {
	_, err := s.acquire(ctx, ask, true)
	return err
}

// Wait waits until the token that a script has put into the queue is given the lock, for
// one poll at most, and reports whether it was; see [Slot.Acquire]. Its errors are those of [Slot.Acquire].
func (s *Slot) Wait(ctx context.Context) (held bool, err error) {
	s.m.wakes.add(s)
	g, err := s.sleep(ctx)
	return g != nil, err
}

// acquire asks for the lock, and waits, by turns, until the token has it. If a wake-up says
// so, or a release of this process, it returns that hold; with anyHold also one that is over.
func (s *Slot) acquire(ctx context.Context, ask func(context.Context) (held bool, err error), anyHold bool) (*grant, error) {
	s.m.wakes.addEarly(s)
	for waits := false; ; waits = true {
		held, err := ask(ctx)
		switch {
		case err != nil && waits && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", ErrHeld, err)
		case err != nil || held:
			return nil, err
		}
		s.m.wakes.add(s)
		if g, err := s.sleep(ctx); err != nil || g != nil && (anyHold || s.isUsable(g)) {
			return g, err
		}
	}
}

// sleep waits until there is reason to ask again, or the token is given the lock.
func (s *Slot) sleep(ctx context.Context) (*grant, error) {
	poll := time.NewTimer(s.m.opts.Poll)
	defer poll.Stop()
	select {
	case g := <-s.turn:
		return g, nil
	case <-poll.C:
		return nil, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
	case <-s.m.life.ctx.Done():
		return nil, ErrClosed
	}
}

// wake takes a wake-up, if it is for this slot's token. Redis gave the lock after it last
// answered that the token has to wait. So the claim counts from when that was asked, by our
// own clock: however long the wake-up was under way, and whatever the server's clock does,
// that is not too late.
func (s *Slot) wake(w wakeUp) (ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != w.token {
		return false
	}
	s.giveLocked(&grant{w.fence, s.waited, w.claim})
	return true
}

// give gives the slot a hold, or with nil a reason to ask.
func (s *Slot) give(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked(g)
}

// giveLocked drops a hold if there is one already. The slot finds out by asking.
func (s *Slot) giveLocked(g *grant) {
	select {
	case s.turn <- g:
	default:
	}
}

// queuedAt records what Redis answered to a token that has to wait.
func (s *Slot) queuedAt(place int64, sent time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.place, s.waited, s.trip = place, sent, took
}

// isUsable reports whether the slot's caller can go to work on a hold. It cannot if the
// hold is over; if it was given for a place in the queue that the slot has lost since; or
// if a claim leaves too little time to extend it, and to do so again.
func (s *Slot) isUsable(g *grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.fence > s.place && !g.isOver() && (g.lasts >= s.m.opts.TTL || g.remaining() > 3*s.trip)
}
