package lockmgr

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Acquire takes the lock of that name. While somebody else holds it, it waits its
// turn: first come, first served between the processes that wait, and within
// this one. Locks are not reentrant: a caller that holds the lock already waits for
// itself.
//
// It returns the cause of ctx when ctx ends first, together with [ErrHeld] if somebody
// else had the lock; [ErrBusy] at once if too many wait or the deadline of ctx cannot be
// met; [ErrInvalid] for a bad name or a nil ctx; [ErrClosed]; and the client's error if
// Redis cannot be asked. Whenever it returns an error the lock is not held, and nothing
// waits for it.
func (m *Manager) Acquire(ctx context.Context, name string) (*Lock, error) {
	start := time.Now()
	w, err := m.join(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	defer m.calls.Done()
	g, err := m.wait(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	return m.acquired(&w.slot, g, m.opts.TTL, start), nil
}

// TryAcquire takes the lock of that name if it is free and nobody waits for it,
// and returns [ErrHeld] if not. Its other errors are those of [Manager.Acquire].
func (m *Manager) TryAcquire(ctx context.Context, name string) (*Lock, error) {
	if err := m.enter(ctx, name); err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	defer m.calls.Done()
	start, s := time.Now(), m.newSlot(name)
	a, err := s.acquire(ctx, 0)
	switch {
	case err == nil && a.grant == nil:
		err = ErrHeld
	case err == nil && a.grant.over():
		err = errLate
	}
	if err != nil {
		s.leave()
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	return m.acquired(&s, a.grant, m.opts.TTL, start), nil
}

// acquired makes a Lock of a hold that has begun.
func (m *Manager) acquired(s *slot, g *grant, ttl time.Duration, start time.Time) *Lock {
	if m.opts.Observer.Acquired != nil {
		m.opts.Observer.Acquired(s.name, time.Since(start))
	}
	return newLock(s, ttl, g)
}

// answer is what Redis said to a token that asked for a lock.
type answer struct {
	grant *grant        // nil if it has to wait
	place int64         // where it waits
	ahead int           // behind so many
	sent  time.Time     // when it was asked
	took  time.Duration // until the reply came
}

// acquire asks Redis once for the lock. If somebody else has it, the token waits in the
// queue, unless keep is zero.
func (s *slot) acquire(ctx context.Context, keep time.Duration) (answer, error) {
	a := answer{sent: time.Now()}
	cmd, err := s.ask(ctx, func(ctx context.Context) *redis.Cmd {
		return s.m.runOn(ctx, acquireScript, s.on, s.token, s.m.ttl, keep.Milliseconds())
	})
	if err != nil {
		return answer{}, err
	}
	reply, err := cmd.Slice()
	if err != nil {
		return answer{}, err
	}
	a.took = time.Since(a.sent)
	if len(reply) == 1 {
		a.grant = &grant{parseNumber(reply[0]), a.sent, s.m.opts.TTL}
		return a, nil
	}
	ahead, _ := reply[2].(int64)
	a.place, a.ahead = parseNumber(reply[1]), int(ahead)
	return a, nil
}

// wait waits until the lock is the waiter's, and takes it out of its line in any
// case.
func (m *Manager) wait(ctx context.Context, w *waiter) (g *grant, err error) {
	defer func() {
		// First marked as abandoned, so that nobody passes a hold on to it, then out of the
		// queue: whoever finds it abandoned gives back what it was given.
		if err != nil && m.abandon(w) {
			w.leave()
		}
		m.part(w, err == nil)
	}()
	if w.turn != nil {
		select {
		case <-w.turn:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
		case <-m.life.Done():
			return nil, ErrClosed
		}
	}
	if w.follows {
		// This process holds the lock and will most likely pass it on. If that
		// takes longer than a poll, the waiter takes its place in the queue.
		if g, err := m.sleep(ctx, w); g != nil || err != nil {
			return g, err
		}
	}
	m.makeKnown(w)
	for waits := false; ; waits = true {
		a, err := w.acquire(ctx, keepQueue)
		switch {
		case err != nil && waits && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", ErrHeld, err)
		case err != nil:
			return nil, err
		case a.grant != nil && !a.grant.over():
			return a.grant, nil
		case a.grant == nil:
			m.queuedAt(w, a.place, a.sent, a.took)
			if !waits {
				m.queued(w.line, a.ahead)
			}
		}
		if g, err := m.sleep(ctx, w); g != nil || err != nil {
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
// on, or that a wake-up brings, needs no asking, if there is still some use in it.
func (m *Manager) sleep(ctx context.Context, w *waiter) (*grant, error) {
	poll := time.NewTimer(m.opts.Poll)
	defer poll.Stop()
	select {
	case g := <-w.given:
		if m.usable(w, g) {
			return g, nil
		}
		return nil, nil
	case <-poll.C:
		return nil, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
	case <-m.life.Done():
		return nil, ErrClosed
	}
}
