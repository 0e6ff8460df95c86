package cachefill

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"roomd/lockmgr"
)

// loadFailure is the error of a load, and when that load was over.
type loadFailure struct {
	err error
	at  time.Time // not later than it was
}

func (f *loadFailure) Error() string { return f.err.Error() }
func (f *loadFailure) Unwrap() error { return f.err }

// failedBefore reports whether err is that of a load that was over at that time.
func failedBefore(err error, at time.Time) bool {
	var f *loadFailure
	return errors.As(err, &f) && f.at.Before(at)
}

// fill loads the value of an entry that has been found missing or stale; or waits
// while somebody else does, and takes what came of it. A load that was broken off
// leaves nothing, and then the next one is ours, or that of whoever comes first.
func (c *Cache) fill(ctx context.Context, e entry, load Loader, found sight) ([]byte, error) {
	for end := time.Now().Add(c.opts.Wait); ; {
		outcome, lock, err := c.locks.AcquireOrVanish(ctx, e.lock, lockmgr.VanishOptions{
			TTL: c.opts.LockTTL, Wait: max(time.Until(end), time.Millisecond), Poll: c.opts.Poll,
		})
		if err != nil {
			return nil, c.why(ctx, err)
		}
		if outcome == lockmgr.Acquired {
			return c.loadUnder(ctx, lock, e, load, found)
		}
		seen, err := c.look(ctx, e)
		switch {
		case err != nil:
			return nil, c.why(ctx, err)
		case seen.found: // if it is a stale one, that is better than none
			return seen.value, nil
		case seen.failedAfter(found):
			return nil, seen.loadFailed()
		case outcome == lockmgr.TimedOut:
			return nil, fmt.Errorf("%w after %v", ErrTimeout, c.opts.Wait)
		}
	}
}

// loadUnder loads and stores a value under the entry's lock, and gives it back.
func (c *Cache) loadUnder(ctx context.Context, lock *lockmgr.Lock, e entry, load Loader, found sight) ([]byte, error) {
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
	case seen.fresh:
		return seen.value, nil
	case seen.failedAfter(found):
		return nil, seen.loadFailed()
	}
	value, failure := c.call(ctx, lock, load)
	cleanup, cancel := context.WithTimeout(after, c.opts.LockTTL)
	defer cancel()
	if failure != nil {
		return c.failed(cleanup, lock, e, failure)
	}
	stored, err := c.store(cleanup, e, lock, value)
	switch {
	case err != nil:
		c.opts.Failed(e.key, fmt.Errorf("cachefill: store %q: %w", e.key, err))
	case !stored:
		c.opts.Failed(e.key, fmt.Errorf("cachefill: store %q: %w", e.key, lockmgr.ErrLost))
		return c.newer(cleanup, e, value, nil)
	}
	return value, nil // it was loaded, even if it cannot be kept
}

// failed makes the best of a load that failed. Only what failed by itself says
// anything about the value: not a load that was broken off because its lock was
// lost or the Cache is closed. That is asked of those two; an error of the load
// function may be, or wrap, one of their kind.
func (c *Cache) failed(ctx context.Context, lock *lockmgr.Lock, e entry, failure *loadFailure) ([]byte, error) {
	switch {
	case c.life.Err() != nil:
		return nil, failure
	case lock.Err() == nil:
		if told, err := c.fail(ctx, e, lock, failure); told || err != nil {
			return nil, failure
		}
	}
	return c.newer(ctx, e, nil, failure) // somebody else may have had the lock
}

// newer returns what another process has stored meanwhile, or else what is given.
func (c *Cache) newer(ctx context.Context, e entry, value []byte, err error) ([]byte, error) {
	if seen, err := c.look(ctx, e); err == nil && seen.found {
		return seen.value, nil
	}
	return value, err
}

// loadFailed returns the error for those who waited for the load that failed.
func (s sight) loadFailed() error {
	return &loadFailure{fmt.Errorf("%w: %s", ErrLoadFailed, s.failure), s.failedAt}
}

// call calls load, in a goroutine of its own: one that panics does no harm, and one
// that does not heed its context is left behind.
func (c *Cache) call(ctx context.Context, lock *lockmgr.Lock, load Loader) ([]byte, *loadFailure) {
	held, cancel := lock.Context(ctx)
	defer cancel()
	limited, stop := context.WithTimeoutCause(held, c.opts.Load,
		fmt.Errorf("load took longer than %v: %w", c.opts.Load, context.DeadlineExceeded))
	defer stop()
	type result struct {
		value []byte
		err   error
		at    time.Time
	}
	done := make(chan result, 1)
	c.wg.Go(func() { // counted, too: its caller is, so the count is not zero
		r := result{}
		returned := false
		defer func() {
			if !returned {
				r.err = &PanicError{Value: recover(), Stack: debug.Stack()}
			}
			r.at = time.Now()
			done <- r
		}()
		r.value, r.err = load(limited)
		returned = true
	})
	select {
	case r := <-done:
		switch {
		case r.err == nil:
			return r.value, nil
		case limited.Err() != nil:
			r.err = fmt.Errorf("%w (%w)", context.Cause(limited), r.err)
		}
		return nil, &loadFailure{r.err, r.at}
	case <-limited.Done():
		return nil, &loadFailure{context.Cause(limited), time.Now()}
	}
}
