package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// wait waits until the lock is the waiter's, and takes it out of its line in any
// case.
func (m *Manager) wait(ctx context.Context, w *waiter) (g *grant, err error) {
	defer func() {
		// First out of sight of who might pass a hold on, then out of the queue:
		// whoever finds the waiter gone gives back what it was given.
		if err != nil && m.giveUp(w) {
			m.leave(w.line.name, w.token)
		}
		m.part(w, err == nil)
	}()
	if w.first != nil {
		select {
		case <-w.first:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
		case <-m.life.Done():
			return nil, ErrClosed
		}
	}
	if w.next {
		// This process holds the lock and will most likely pass it on. If that
		// takes longer than a poll, the waiter takes its place in the queue.
		if g, err := m.sleep(ctx, w); g != nil || err != nil {
			return g, err
		}
	}
	m.makeKnown(w)
	g, ahead, err := m.ask(ctx, w.line.name, w.token, keepQueue)
	if g != nil || err != nil {
		return g, err
	}
	m.queued(w.line, ahead)
	for {
		if g, err := m.sleep(ctx, w); g != nil || err != nil {
			return g, err
		}
		g, _, err := m.askAgain(ctx, w.line.name, w.token)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrHeld, err)
		}
		if g != nil || err != nil {
			return g, err
		}
	}
}

// queued notes that a waiter has to wait.
func (m *Manager) queued(l *line, processes int) {
	m.listen(l)
	if m.opts.Observer.Queued == nil {
		return
	}
	m.mu.Lock()
	local := len(l.waiters) - 1
	m.mu.Unlock()
	m.opts.Observer.Queued(l.name, local, processes)
}

// sleep waits until there is reason to ask again. A hold that this process passes
// on needs no asking.
func (m *Manager) sleep(ctx context.Context, w *waiter) (*grant, error) {
	poll := time.NewTimer(m.opts.Poll)
	defer poll.Stop()
	select {
	case g := <-w.given:
		return g, nil
	case <-w.wake:
		return nil, nil
	case <-poll.C:
		return nil, nil
	case <-ctx.Done():
	case <-m.life.Done():
	}
	err := m.ended(ctx)
	if !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrHeld, err)
	}
	return nil, err
}
