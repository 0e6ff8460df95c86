package cachefill

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"roomd/lockmgr"
)

// fill loads the value of an entry that has been found missing or stale, at that
// time; or waits until somebody else has, and reads it.
func (c *Cache) fill(ctx context.Context, e entry, load Loader, since int64) ([]byte, error) {
	outcome, lock, err := c.locks.AcquireOrVanish(ctx, e.lock, lockmgr.VanishOptions{
		TTL: c.opts.LockTTL, Wait: c.opts.Wait, Poll: c.opts.Poll,
	})
	if err != nil {
		return nil, c.why(ctx, err)
	}
	if outcome == lockmgr.Acquired {
		return c.loadUnder(ctx, lock, e, load, since)
	}
	seen, err := c.look(ctx, e)
	switch {
	case err != nil:
		return nil, c.why(ctx, err)
	case seen.found: // if it is a stale one, that is better than none
		return seen.value, nil
	case outcome == lockmgr.TimedOut:
		return nil, fmt.Errorf("%w after %v", ErrTimeout, c.opts.Wait)
	case seen.failedAt >= since:
		return nil, fmt.Errorf("%w: %s", ErrLoadFailed, seen.failure)
	}
	return nil, ErrNotFilled
}

// loadUnder loads and stores a value under the entry's lock, and gives it back.
func (c *Cache) loadUnder(ctx context.Context, lock *lockmgr.Lock, e entry, load Loader, since int64) ([]byte, error) {
	after := context.WithoutCancel(ctx) // for what has to be done in any case
	defer func() {
		ctx, cancel := context.WithTimeout(after, c.opts.LockTTL)
		defer cancel()
		_ = lock.Release(ctx) // its TTL would do it, too
	}()
	lock.KeepAlive()
	// Somebody may have loaded between our first look and the lock.
	seen, err := c.look(ctx, e)
	switch {
	case err != nil:
		return nil, c.why(ctx, err)
	case seen.fresh(c.opts.Stale):
		return seen.value, nil
	case seen.failedAt >= since:
		return nil, fmt.Errorf("%w: %s", ErrLoadFailed, seen.failure)
	}
	value, err := c.call(ctx, lock, load)
	cleanup, cancel := context.WithTimeout(after, c.opts.LockTTL)
	defer cancel()
	if err != nil {
		return c.settle(cleanup, lock, e, err)
	}
	lock.StopKeepAlive() // what follows gives the lock back
	stored, err := c.store(cleanup, e, lock, value)
	switch {
	case err != nil:
		c.opts.Failed(e.key, fmt.Errorf("cachefill: store %q: %w", e.key, err))
	case stored:
		lock.Given()
	default:
		lock.WriteRefused()
		c.opts.Failed(e.key, fmt.Errorf("cachefill: store %q: %w", e.key, lockmgr.ErrLost))
		if newer, err := c.look(cleanup, e); err == nil && newer.found {
			return newer.value, nil
		}
	}
	return value, nil // it was loaded, even if it cannot be kept
}

// settle makes the best of a load that failed.
func (c *Cache) settle(ctx context.Context, lock *lockmgr.Lock, e entry, failure error) ([]byte, error) {
	switch {
	case errors.Is(failure, ErrClosed): // says nothing of the value
		return nil, failure
	case errors.Is(failure, lockmgr.ErrLost):
		if newer, err := c.look(ctx, e); err == nil && newer.found {
			return newer.value, nil
		}
		return nil, failure
	}
	lock.StopKeepAlive() // what follows gives the lock back
	if told, err := c.fail(ctx, e, lock, failure); err == nil && told {
		lock.Given()
	}
	return nil, failure
}

// call calls load, in a goroutine of its own: one that panics does no harm, and one
// that does not heed its context is left behind.
func (c *Cache) call(ctx context.Context, lock *lockmgr.Lock, load Loader) ([]byte, error) {
	held, cancel := lock.Context(ctx)
	defer cancel()
	limited, stop := context.WithTimeoutCause(held, c.opts.Load,
		fmt.Errorf("load took longer than %v: %w", c.opts.Load, context.DeadlineExceeded))
	defer stop()
	type result struct {
		value []byte
		err   error
	}
	done := make(chan result, 1)
	c.wg.Go(func() { // counted, too: its caller is, so the count is not zero
		r := result{}
		returned := false
		defer func() {
			if !returned {
				r.err = &PanicError{Value: recover(), Stack: debug.Stack()}
			}
			done <- r
		}()
		r.value, r.err = load(limited)
		returned = true
	})
	select {
	case r := <-done:
		if r.err != nil && limited.Err() != nil {
			return nil, fmt.Errorf("%w (%w)", context.Cause(limited), r.err)
		}
		return r.value, r.err
	case <-limited.Done():
		return nil, context.Cause(limited)
	}
}
