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
	"roomd/lockmgr/redisconn/pause"
)

// Cache loads and keeps entries. It is safe for concurrent use.
type Cache struct {
	locks  *lockmgr.Manager
	opts   Options
	redis  *storage
	shared singleflight.Group // merges the Gets of one key

	life context.Context
	end  context.CancelCauseFunc
	wg   sync.WaitGroup // leaves zero only under mu, while life has not ended

	mu         sync.Mutex
	refreshing map[string]bool // guarded by mu: keys that this process loads in the background
}

// New returns a Cache that keeps its entries in the Redis of locks. Close the Cache before locks. New sends nothing.
//
// New returns an [lockmgr.ErrInvalid] that names the argument if locks is nil or opts cannot be used.
func New(locks *lockmgr.Manager, opts Options) (*Cache, error) {
	if locks == nil {
		return nil, invalid("locks is nil")
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	cluster := strings.Contains(locks.Key("any"), "{")
	c := &Cache{locks: locks, opts: opts, redis: &storage{locks, opts, cluster}, refreshing: make(map[string]bool)}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// Close cancels all loads and all waiting, with [lockmgr.ErrClosed], and waits for them.
func (c *Cache) Close() {
	c.mu.Lock()
	c.end(lockmgr.ErrClosed)
	c.mu.Unlock()
	c.wg.Wait()
}

// loading is the context key that marks the load of an entry.
type loading struct {
	cache *Cache
	key   string
}

// Loader makes the value of an entry. Its context has the values of the call that started the load, but ends
// for other reasons: the load takes longer than Options.Load, its lock is lost, or the Cache is closed. A Get
// of the same entry with that context fails, because it would wait for itself.
type Loader func(ctx context.Context) ([]byte, error)

// Get returns the value of key. If there is none, or it is too old, exactly one of all callers, in all
// processes, calls the load that it was given. A value without bytes is empty and never nil.
//
// Get returns the error of load, if this process called it; a [PanicError] if load panicked; [ErrLoadFailed] if
// load failed in another process; [ErrTimeout]; [lockmgr.ErrInvalid]; [lockmgr.ErrClosed]; the cause of ctx
// when ctx ends first; an error that is context.DeadlineExceeded if load took too long, or lockmgr.ErrLost if
// the lock of the load was lost; and the client's error if Redis cannot be asked, or refuses the lock.
func (c *Cache) Get(ctx context.Context, key string, load Loader) ([]byte, error) {
	e, err := c.redis.entry(key)
	switch {
	case err != nil:
		return nil, err
	case ctx == nil:
		return nil, invalid("ctx is nil")
	case load == nil:
		return nil, invalid("load is nil")
	case ctx.Value(loading{c, e.key}) != nil:
		return nil, invalid("get %q: its own load waits for it", key)
	}
	came := time.Now()
	value, err := c.join(ctx, e, load)
	if failedBefore(err, came) { // this call joined a load that had failed already
		value, err = c.join(ctx, e, load)
	}
	if err != nil {
		return nil, fmt.Errorf("cachefill: get %q: %w", key, err)
	}
	return value, nil
}

// join shares one call of get with all other Gets of the same key in this process.
func (c *Cache) join(ctx context.Context, e entry, load Loader) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	result := c.shared.DoChan(e.key, func() (any, error) {
		if !c.begin() {
			return nil, lockmgr.ErrClosed
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
			value = bytes.Clone(value) // each caller may change its copy
		}
		return value, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin counts a goroutine in wg, so that Close waits for it. It returns false if the Cache is closed.
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

// get returns the value of an entry. It loads a missing value first, and a stale one in the background. All Gets of a
// key share one call of get.
func (c *Cache) get(ctx context.Context, e entry, load Loader) ([]byte, error) {
	seen, err := c.redis.look(ctx, e)
	switch {
	case err != nil:
		return nil, reason(ctx, err)
	case seen.found:
		if !seen.fresh && !seen.backoff {
			c.refresh(ctx, e, load, seen)
		}
		return seen.value, nil
	}
	return c.fill(ctx, e, load, seen)
}

// refresh loads a stale value again in the background, unless this process is loading it already, or has failed
// to load it within the last Options.Backoff.
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
			_ = pause.For(own, c.opts.Backoff) // Redis may not know about the failure
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.refreshing, e.key)
	})
}

// reason returns the cause of ctx if ctx has ended, because err is then only a consequence; otherwise err.
func reason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
