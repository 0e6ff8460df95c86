package lockmgr

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Acquire acquires the lock of that name. While somebody else holds it, Acquire waits:
// first come, first served between the processes that wait, and within this one. Locks are
// not reentrant: a caller that holds the lock already waits for itself.
//
// It returns the cause of ctx when ctx ends first, together with [ErrHeld] if somebody
// else had the lock; [ErrBusy] at once if too many wait or the deadline of ctx cannot be
// met; [ErrInvalid] for a bad name or a nil ctx; [ErrClosed]; and the client's error if
// Redis cannot be asked. After an error the call holds no lock, and has left the queue.
func (m *Manager) Acquire(ctx context.Context, name string) (*Lock, error) {
	return m.AcquireWith(ctx, name, AcquireOptions{})
}

// AcquireOptions are for one call. The zero value means the Manager's Options.
type AcquireOptions struct {
	// Wait is how long to wait for the lock at most, as if ctx had that deadline; the errors are those of
	// [Manager.Acquire]. Zero means as long as ctx.
	Wait time.Duration

	// TTL is how long this hold lasts. Whole milliseconds, not shorter than Options.Claim. Zero means Options.TTL.
	TTL time.Duration
}

func (o AcquireOptions) validate(m *Manager) error {
	switch {
	case o.Wait < 0:
		return fmt.Errorf("Wait is %v, it must be more than zero: %w", o.Wait, ErrInvalid)
	case o.TTL != 0 && o.TTL < m.opts.Claim:
		return fmt.Errorf("TTL is %v, it must not be shorter than the Claim (%v): %w", o.TTL, m.opts.Claim, ErrInvalid)
	case o.TTL%time.Millisecond != 0:
		return fmt.Errorf("TTL is %v, Redis counts in whole milliseconds: %w", o.TTL, ErrInvalid)
	}
	return nil
}

// AcquireWith is [Manager.Acquire] with options for this call. It returns [ErrInvalid] for bad ones.
func (m *Manager) AcquireWith(ctx context.Context, name string, opts AcquireOptions) (*Lock, error) {
	lock, err := m.acquire(ctx, name, opts)
	if err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	return lock, nil
}

func (m *Manager) acquire(ctx context.Context, name string, opts AcquireOptions) (*Lock, error) {
	if err := opts.validate(m); err != nil {
		return nil, err
	}
	if err := m.enter(ctx, name); err != nil {
		return nil, err
	}
	defer m.life.calls.Done()
	w := new(waiter)
	w.init(m, name)
	w.ttl = cmp.Or(opts.TTL, m.opts.TTL)
	w.args[0] = w.ttl.Milliseconds()
	if opts.Wait > 0 {
		limited, cancel := context.WithTimeout(ctx, opts.Wait)
		defer cancel()
		ctx = limited
	}
	g, err := w.wait(ctx)
	if err != nil {
		return nil, err
	}
	return newLock(&w.Slot, w.ttl, g), nil
}

// TryAcquire acquires the lock of that name if it is free and nobody waits for it, and returns [ErrHeld] if not. It
// returns [ErrExpired] if Redis answered only after the TTL. Otherwise it fails as [Manager.Acquire].
func (m *Manager) TryAcquire(ctx context.Context, name string) (*Lock, error) {
	lock, _, err := m.try(ctx, name, m.opts.TTL)
	if err == nil && lock == nil {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	return lock, nil
}

// try asks once for the lock. If it is not free, try returns a nil Lock and the holder's token, if there is one.
func (m *Manager) try(ctx context.Context, name string, ttl time.Duration) (_ *Lock, holder string, err error) {
	if err := m.enter(ctx, name); err != nil {
		return nil, "", err
	}
	defer m.life.calls.Done()
	s, sent := new(Slot), time.Now()
	s.init(m, name)
	cmd, err := s.Ask(ctx, tryScript, ttl.Milliseconds())
	if err != nil {
		s.Abandon()
		return nil, "", err
	}
	fence, holder := parseReply(cmd.Val())
	if fence == "" {
		return nil, holder, nil
	}
	g := &grant{s.Token(), parseNumber(fence), sent, ttl}
	if g.isOver() {
		s.Abandon()
		return nil, "", errLate
	}
	return newLock(s, ttl, g), "", nil
}

// wait waits until w has the lock, in the line of its lock, or returns why not.
func (w *waiter) wait(ctx context.Context) (g *grant, err error) {
	lines := &w.m.lines
	if err := lines.join(ctx, w); err != nil {
		return nil, err
	}
	defer func() {
		// lines.abandon comes first, so that no further release names w's token. abandon then cleans up in Redis.
		if err != nil && lines.abandon(w) {
			abandon(w.m, w.asked, w.attempt())
		}
		w.Close()
		lines.remove(w, err == nil)
	}()
	if w.first != nil {
		select {
		case <-w.first:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
		case <-w.m.life.ctx.Done():
			return nil, ErrClosed
		}
	}
	queued := false
	if w.handedOver {
		// This process holds the lock and will most likely hand it to w. If it does not within a poll, w enters
		// the queue in Redis, unless the release has put it there.
		if g, err := w.sleep(ctx, w.m.opts.Poll); err != nil || g != nil && w.isUsable(g) {
			return g, err
		}
		queued = g == nil && w.isQueued()
	}
	lines.enterRedis(w)
	if g, _, err = w.acquire(ctx, queued, w.ask, false); g == nil {
		g = &w.granted
	}
	return g, err
}

// ask asks Redis once for the lock. If somebody else has it, Redis puts the token into the queue.
func (w *waiter) ask(ctx context.Context) (held bool, err error) {
	sent := time.Now()
	cmd, err := w.Ask(ctx, acquireScript, w.args[:]...)
	if err != nil {
		return false, err
	}
	token := w.Token()
	fence, position := parseReply(cmd.Val())
	if fence == "" {
		w.queuedAt(token, parseNumber(position), sent, time.Since(sent))
		return false, nil
	}
	// This reply replaces an earlier grant: the request set the key's TTL to ours, which may be less than the claim.
	w.queuedAt(token, parseNumber(fence), sent, 0)
	w.granted = grant{token, parseNumber(fence), sent, w.ttl}
	return !w.granted.isOver(), nil
}
