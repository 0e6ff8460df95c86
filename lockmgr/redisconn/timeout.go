package redisconn

import (
	"context"
	"sync"
	"time"
)

// SharedTimeout returns contexts that end after some time. Calls within an eighth of that time
// get the same context: a timer and a channel for each request would cost as much as the rest
// of it. A SharedTimeout is safe for concurrent use.
type SharedTimeout struct {
	life  context.Context
	lasts time.Duration

	mu    sync.Mutex
	ctx   context.Context // guarded by mu: the latest one
	until time.Time       // guarded by mu: until then calls get ctx
}

// NewSharedTimeout returns a SharedTimeout. Its contexts end with life, or between seven and
// eight eighths of lasts after the call that returned them.
func NewSharedTimeout(life context.Context, lasts time.Duration) *SharedTimeout {
	return &SharedTimeout{life: life, lasts: lasts}
}

// Context returns a context that ends with context.DeadlineExceeded.
func (t *SharedTimeout) Context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.ctx == nil || now.After(t.until) {
		ctx, cancel := context.WithTimeout(t.life, t.lasts)
		context.AfterFunc(ctx, cancel) // not earlier: others share it
		t.ctx, t.until = ctx, now.Add(t.lasts/8)
	}
	return t.ctx
}
