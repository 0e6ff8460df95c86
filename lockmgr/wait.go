package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
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
	if w.quiet {
		if g, err := m.takePlainly(ctx, w.keys, w.token); g != nil || err != nil {
			return g, err
		}
	}
	a, err := m.asked(ctx, func(args []any) *redis.Cmd {
		return m.run(ctx, acquireScript, w.keys, args)
	}, w.token, keepQueue)
	if err == nil {
		m.met(w.line.name, a.grant == nil)
	}
	if a.grant != nil || err != nil {
		return a.grant, err
	}
	m.learn(w, a.moment)
	m.queued(w.line, a.ahead)
	for {
		if g, err := m.sleep(ctx, w); g != nil || err != nil {
			return g, err
		}
		a, err := m.asked(ctx, func(args []any) *redis.Cmd {
			return m.runUntil(ctx, acquireScript, w.keys, args, func() {
				m.clean(w.line.name, w.token) // the caller has cleaned up, but perhaps too early
			})
		}, w.token, keepQueue)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrHeld, err)
		}
		if a.grant != nil || err != nil {
			return a.grant, err
		}
		m.learn(w, a.moment)
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
// on, or that a wake-up brings, needs no asking.
func (m *Manager) sleep(ctx context.Context, w *waiter) (*grant, error) {
	poll := time.NewTimer(m.opts.Poll)
	defer poll.Stop()
	select {
	case g := <-w.given:
		return g, nil
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
