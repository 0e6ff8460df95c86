package lockmgr

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Lock is one hold of a lock. It is safe for concurrent use.
type Lock struct {
	m     *Manager
	name  string
	token string

	mu       sync.Mutex
	deadline time.Time // guarded by mu
	released bool      // guarded by mu
}

// Name returns the name that was acquired.
func (l *Lock) Name() string { return l.name }

// Token returns the value that the key holds during this hold and never again.
func (l *Lock) Token() string { return l.token }

// Deadline returns the moment up to which the hold can be trusted, unless it is
// extended. It carries a monotonic reading.
func (l *Lock) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Extend starts the TTL anew. It returns [ErrLost] if the lock is not ours any
// more, and the client's error if Redis did not answer; the old deadline stands
// in both cases.
func (l *Lock) Extend(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return fmt.Errorf("lockmgr: extend %q after its release: %w", l.name, ErrLost)
	}
	sent := time.Now()
	extended, err := extendScript.Run(ctx, l.m.client, []string{l.m.Key(l.name)}, l.token, l.m.opts.TTL.Milliseconds()).Int()
	if err != nil {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, err)
	}
	if extended == 0 {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, ErrLost)
	}
	l.deadline = sent.Add(l.m.opts.TTL)
	return nil
}

// Release gives the lock back. Calling it again after it succeeded does nothing.
//
// It returns [ErrLost] if the lock turned out to be somebody else's or to have
// expired, and the client's error if Redis did not answer; the lock then goes
// away at the latest with its TTL, and Release may be called again. A key that
// is gone before its deadline counts as released: the likely reason is an
// earlier release whose reply was lost.
func (l *Lock) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	answer, err := releaseScript.Run(ctx, l.m.client, []string{l.m.Key(l.name)}, l.token).Int()
	if err != nil {
		return fmt.Errorf("lockmgr: release %q: %w", l.name, err)
	}
	l.released = true
	if answer < 0 || answer == 0 && time.Now().After(l.deadline) {
		return fmt.Errorf("lockmgr: release %q: %w", l.name, ErrLost)
	}
	return nil
}
