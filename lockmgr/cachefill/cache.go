package cachefill

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"roomd/lockmgr"
)

// Cache loads and keeps entries. It is safe for concurrent use.
type Cache struct {
	locks   *lockmgr.Manager
	opts    Options
	cluster bool
	shared  singleflight.Group // Gets of one key that wait together

	life context.Context
	end  context.CancelCauseFunc
	wg   sync.WaitGroup // begins to grow only under mu, while life has not ended

	mu         sync.Mutex
	refreshing map[string]bool // guarded by mu: keys that this process loads in the background
}

// New returns a Cache that keeps its entries in the Redis of locks, which must be
// closed after the Cache. It sends nothing.
//
// New returns an [ErrInvalid] that names the argument if locks is nil or opts
// cannot be used.
func New(locks *lockmgr.Manager, opts Options) (*Cache, error) {
	if locks == nil {
		return nil, fmt.Errorf("cachefill: locks is nil: %w", ErrInvalid)
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	c := &Cache{locks: locks, opts: opts, refreshing: make(map[string]bool)}
	c.cluster = strings.Contains(locks.Key("any"), "{") // only there keys get a hash tag
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// Close cancels all loads and all waiting, with [ErrClosed], and waits for them.
func (c *Cache) Close() {
	c.mu.Lock()
	c.end(ErrClosed)
	c.mu.Unlock()
	c.wg.Wait()
}

// Loader makes the value of an entry. Its context carries the values of the call
// that began the load, but ends for other reasons: the load takes longer than
// Options.Load, its lock is lost, or the Cache is closed.
type Loader func(ctx context.Context) ([]byte, error)

// Get returns the value of key. If there is none, or it is too old, exactly one of
// all callers calls its load.
//
// It returns the error of load, if that was called in this process; a [PanicError]
// if load panicked; [ErrLoadFailed] if it was called in another process and failed
// there; [ErrTimeout]; [ErrInvalid]; [ErrClosed]; the cause of ctx when ctx ends
// first; an error that is context.DeadlineExceeded if load took too long, and
// lockmgr.ErrLost if its lock was lost; and the client's error if Redis cannot be
// asked, or refuses the lock.
func (c *Cache) Get(ctx context.Context, key string, load Loader) ([]byte, error) {
	e, err := c.entry(key)
	switch {
	case err != nil:
		return nil, err
	case ctx == nil:
		return nil, fmt.Errorf("cachefill: ctx is nil: %w", ErrInvalid)
	case load == nil:
		return nil, fmt.Errorf("cachefill: load is nil: %w", ErrInvalid)
	}
	came := time.Now()
	value, err := c.join(ctx, e, load)
	if failedBefore(err, came) { // it was a wait that had begun before; the next one has not
		value, err = c.join(ctx, e, load)
	}
	if err != nil {
		return nil, fmt.Errorf("cachefill: get %q: %w", key, err)
	}
	return value, nil
}

// join shares one wait with all who ask for the same key in this process.
func (c *Cache) join(ctx context.Context, e entry, load Loader) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	result := c.shared.DoChan(e.key, func() (any, error) {
		if !c.begin() {
			return nil, ErrClosed
		}
		defer c.wg.Done()
		own, cancel := c.detach(ctx)
		defer cancel()
		return c.get(own, e, load)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		value := r.Val.([]byte)
		if r.Shared {
			value = bytes.Clone(value) // each caller may change its own
		}
		return value, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin counts a goroutine that Close waits for.
func (c *Cache) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.wg.Add(1)
	return true
}

// detach returns a context with the values of ctx that ends with the Cache.
func (c *Cache) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	return own, func() { stop(); cancel(context.Canceled) }
}

// get is what all callers of one key in this process share.
func (c *Cache) get(ctx context.Context, e entry, load Loader) ([]byte, error) {
	seen, err := c.look(ctx, e)
	switch {
	case err != nil:
		return nil, c.why(ctx, err)
	case seen.found:
		if !seen.fresh && !seen.backoff {
			c.refresh(ctx, e, load, seen)
		}
		return seen.value, nil
	}
	return c.fill(ctx, e, load, seen)
}

// refresh has a stale value loaded anew in the background, unless this process
// does so already, or could not do so within Options.Backoff.
func (c *Cache) refresh(ctx context.Context, e entry, load Loader, found sight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refreshing[e.key] || c.life.Err() != nil {
		return
	}
	c.refreshing[e.key] = true
	own, cancel := c.detach(ctx)
	c.wg.Go(func() {
		defer cancel()
		if _, err := c.fill(own, e, load, found); err != nil {
			c.opts.Failed(e.key, err)
			pause(own, c.opts.Backoff) // Redis may not know that it failed
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.refreshing, e.key)
	})
}

// why returns the reason for which ctx has ended rather than an error that only
// follows from it.
func (c *Cache) why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
