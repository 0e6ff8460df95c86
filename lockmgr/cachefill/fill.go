package cachefill

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"roomd/lockmgr"
)

var (
	// ErrTimeout says that another caller was still loading after Options.Wait.
	ErrTimeout = errors.New("still being loaded by another")

	// ErrLoadFailed says that another process failed to load the value while this one waited for it. The
	// message contains the other error's text.
	ErrLoadFailed = errors.New("its load failed in another process")
)

// PanicError says that the load function did not return: it panicked, or ended its goroutine.
type PanicError struct {
	Value any    // the value of the panic; nil after runtime.Goexit
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "the load function ended its goroutine"
	}
	return fmt.Sprintf("the load function panicked: %v", e.Value)
}

// Unwrap returns the value of the panic if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// loadFailure is the error of a load, with the time of the failure.
type loadFailure struct {
	err error
	at  time.Time // when the load ended or was given up, or a little earlier
}

func (f *loadFailure) Error() string { return f.err.Error() }
func (f *loadFailure) Unwrap() error { return f.err }

// failedBefore reports whether err comes from a load that failed before at.
func failedBefore(err error, at time.Time) bool {
	var f *loadFailure
	return errors.As(err, &f) && f.at.Before(at)
}

// fill loads the value of an entry that is missing or stale. If another caller is loading it, fill waits for at most
// Options.Wait, and returns the outcome of that load. A load that was broken off has no outcome: the next caller to
// get the lock loads.
func (c *Cache) fill(ctx context.Context, e entry, load Loader, found sight) ([]byte, error) {
	for end := time.Now().Add(c.opts.Wait); ; {
		outcome, lock, err := c.locks.AcquireOrWait(ctx, e.lock, lockmgr.WaitOptions{
			TTL: c.opts.LockTTL, Wait: max(time.Until(end), time.Millisecond), Poll: c.opts.Poll,
		})
		if err != nil {
			return nil, reason(ctx, err)
		}
		if outcome == lockmgr.Acquired {
			return c.loadUnder(ctx, lock, e, load, found)
		}
		seen, err := c.redis.look(ctx, e)
		switch {
		case err != nil:
			return nil, reason(ctx, err)
		case seen.found: // a stale value is better than none
			return seen.value, nil
		case seen.failedAfter(found):
			return nil, seen.loadFailed()
		case outcome == lockmgr.TimedOut:
			return nil, fmt.Errorf("%w after %v", ErrTimeout, c.opts.Wait)
		}
	}
}

// loadUnder loads and stores a value under the entry's lock, unless another load has ended since the entry was as in
// found, and releases the lock.
func (c *Cache) loadUnder(ctx context.Context, lock *lockmgr.Lock, e entry, load Loader, found sight) ([]byte, error) {
	after := context.WithoutCancel(ctx) // for work that must be done in any case
	defer func() {
		ctx, cancel := context.WithTimeout(after, c.opts.LockTTL)
		defer cancel()
		_ = lock.Release(ctx) // if it fails, the TTL ends the hold
	}()
	lock.KeepAlive()
	// Somebody may have loaded between the first look and the lock.
	seen, err := c.redis.look(ctx, e)
	switch {
	case err != nil:
		return nil, reason(ctx, err)
	case seen.fresh:
		return seen.value, nil
	case seen.failedAfter(found):
		return nil, seen.loadFailed()
	}
	value, failure := c.call(context.WithValue(ctx, loading{c, e.key}, true), lock, load)
	cleanup, cancel := context.WithTimeout(after, c.opts.LockTTL)
	defer cancel()
	if failure != nil {
		return c.failed(cleanup, lock, e, failure)
	}
	if value == nil {
		value = []byte{} // as others will read it
	}
	stored, err := c.redis.store(cleanup, e, lock, value)
	switch {
	case err != nil:
		c.opts.Failed(e.key, fmt.Errorf("cachefill: store %q: %w", e.key, err))
	case !stored:
		c.opts.Failed(e.key, fmt.Errorf("cachefill: store %q: %w", e.key, lockmgr.ErrLost))
		return c.newer(cleanup, e, value, nil)
	}
	return value, nil // it was loaded, even if it cannot be kept
}

// failed ends a load that returned an error. It tells the other processes, unless the load was broken off: the
// lock was lost, or the Cache is closed. It does not infer that from the error, because a load function may
// itself return lockmgr.ErrClosed or ErrLost.
func (c *Cache) failed(ctx context.Context, lock *lockmgr.Lock, e entry, failure *loadFailure) ([]byte, error) {
	switch {
	case c.life.Err() != nil:
		return nil, failure
	case lock.Err() == nil:
		if told, err := c.redis.fail(ctx, e, lock, failure); told || err != nil {
			return nil, failure
		}
	}
	return c.newer(ctx, e, nil, failure) // another caller may have had the lock
}

// newer returns the value that another process has stored meanwhile. If there is none, it returns value and err.
func (c *Cache) newer(ctx context.Context, e entry, value []byte, err error) ([]byte, error) {
	if seen, err := c.redis.look(ctx, e); err == nil && seen.found {
		return seen.value, nil
	}
	return value, err
}

// loadFailed returns the error for callers that waited for a load of another process.
func (s sight) loadFailed() error {
	return &loadFailure{fmt.Errorf("%w: %s", ErrLoadFailed, s.failure), s.failedAt}
}

// call calls load in a goroutine of its own. So a panic ends only the load, and a load that ignores its context
// does not delay others.
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
	c.wg.Go(func() { // allowed without mu: the caller is counted, so wg is not zero
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
