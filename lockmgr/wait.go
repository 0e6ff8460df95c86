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
	asked := false
	defer func() {
		if err != nil && asked {
			// First out of sight of who might pass a hold on, then out of the
			// queue: whoever finds the waiter gone gives back what it was given.
			m.giveUp(w)
			m.leave(ctx, w.line.name, w.token)
		}
		m.part(w, err == nil)
	}()
	select {
	case <-w.first:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
	case <-m.life.Done():
		return nil, ErrClosed
	}
	for {
		again := asked
		asked = true
		g, ahead, err := m.ask(ctx, w.line.name, w.token, keepQueue)
		switch {
		case err != nil && again && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", ErrHeld, err)
		case g != nil || err != nil:
			return g, err
		case !again:
			m.queued(w.line, ahead)
		}
		if g, err = m.sleep(ctx, w); g != nil || err != nil {
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
