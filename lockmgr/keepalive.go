package lockmgr

import (
	"context"
	"errors"
	"time"
)

// KeepAlive starts the watchdog: from now on the hold is extended whenever a third
// of its TTL has passed, until it is released or lost. For holds that are shorter
// than the TTL it is not needed.
//
// A watchdog keeps a lock for a caller that hangs, too. Give the work a deadline.
func (l *Lock) KeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errLocked() != nil {
		return
	}
	l.alive = true
	if l.keeper == nil {
		l.keeper = time.AfterFunc(l.ttl/3, l.keep)
	}
}

// StopKeepAlive ends the watchdog, and waits for an extension that runs. The hold
// then ends by its deadline. Call it before a script of your own gives the lock
// back: an extension that came behind that would find the lock gone, and report it
// as [ErrStolen].
func (l *Lock) StopKeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
	for l.cancel != nil {
		l.idle.Wait()
	}
}

// stopLocked has no extension start any more, and cuts off one that runs.
func (l *Lock) stopLocked() {
	if l.cancel != nil {
		l.cancel()
	}
	if l.keeper != nil {
		l.keeper.Stop()
		l.keeper = nil
	}
	l.alive = false
}

// keep extends the hold: the watchdog's turn, or the one time after a hand-over.
func (l *Lock) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keeper == nil || l.errLocked() != nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), l.deadline)
	defer cancel()
	err := l.extendLocked(ctx)
	l.silent = err != nil
	if l.keeper == nil || l.errLocked() != nil {
		return
	}
	switch {
	case err != nil: // not answered: try again while there is time
		l.keeper.Reset(min(l.ttl/10, max(time.Until(l.deadline)/2, l.m.opts.Poll)))
	case l.alive:
		l.keeper.Reset(l.ttl / 3)
	}
}

// Context returns a copy of ctx that is cancelled when the hold is over, with what
// [Lock.Err] says as context.Cause. Call cancel when it is needed no more.
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

// Do runs fn under the lock of that name. The hold is extended while fn runs. When
// it is lost all the same, fn's context is cancelled, with an [ErrLost] that says
// how as its cause; fn should then stop.
//
// Do returns what fn returned, joined with an ErrLost if the hold did not last
// until the end; or an error of [Manager.Acquire], and then fn was not called.
func (m *Manager) Do(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	lock, err := m.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return lock.do(ctx, fn)
}

// do runs fn during a hold, and ends it.
func (l *Lock) do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	l.KeepAlive()
	held, cancel := l.Context(ctx)
	defer func() {
		release, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer stop()
		// A release that is not answered is no fault of fn's: the TTL does it.
		if lost := l.Release(release); errors.Is(lost, ErrLost) {
			err = errors.Join(err, lost)
		}
		cancel()
	}()
	return fn(held)
}
