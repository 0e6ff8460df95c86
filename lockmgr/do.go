package lockmgr

import (
	"context"
	"errors"
	"fmt"
)

// Context returns a copy of ctx that is cancelled when the hold is over, with what
// [Lock.Err] says as context.Cause. Call cancel when you need it no more.
func (l *Lock) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(ctx)
	done := l.Done()
	stop := make(chan struct{})
	go func() { // ends with the hold, or with ctx
		select {
		case <-done:
			cancelCause(l.Err())
		case <-ctx.Done():
		}
		close(stop)
	}()
	return ctx, func() { cancelCause(context.Canceled); <-stop }
}

// Do runs fn under the lock of that name, and gives fn the hold, for its fence and token.
// The hold is extended while fn runs. When it is lost all the same, fn's context is
// cancelled, with an [ErrLost] that says how as its cause; fn should then stop. Locks are
// not reentrant: a Do or an Acquire of the same name within fn waits for fn itself.
//
// Do returns what fn returned, joined with an ErrLost if the hold did not last until the
// end; or an error of [Manager.Acquire], and then fn was not called. If Redis does not
// answer the release, Do goes by the deadline: a hold that was not over by then lasted.
func (m *Manager) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error) error {
	if fn == nil {
		return fmt.Errorf("lockmgr: do %q: fn is nil: %w", name, ErrInvalid)
	}
	lock, err := m.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return runUnder(ctx, lock, fn)
}

// runUnder runs fn during a hold, and ends it.
func runUnder(ctx context.Context, l *Lock, fn func(ctx context.Context, lock *Lock) error) (err error) {
	l.KeepAlive()
	held, cancel := l.Context(ctx)
	defer func() {
		release, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer stop()
		// If Redis does not answer the release, the TTL ends the hold: no fault of fn's.
		if lost := l.Release(release); errors.Is(lost, ErrLost) {
			err = errors.Join(err, lost)
		}
		cancel()
	}()
	return fn(held, l)
}
