// Package redisconn holds what all parts need of Redis beyond go-redis.
package redisconn

import (
	"context"
	"sync"
	"time"
)

// SharedTimeout gives out contexts that end after some time. Those who ask within an
// eighth of that time share one: a timer and a channel for each request would cost as
// much as the rest of it. It is safe for concurrent use.
type SharedTimeout struct {
	life  context.Context
	lasts time.Duration

	mu    sync.Mutex
	ctx   context.Context // guarded by mu: the one given out last
	until time.Time       // guarded by mu: up to when it is given out
}

// NewSharedTimeout returns a SharedTimeout whose contexts end between seven and eight
// eighths of lasts after they were asked for, or with life.
func NewSharedTimeout(life context.Context, lasts time.Duration) *SharedTimeout {
	return &SharedTimeout{life: life, lasts: lasts}
}

// Context returns a context that ends with context.DeadlineExceeded.
func (t *SharedTimeout) Context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.ctx == nil || now.After(t.until) {
		ctx, cancel := context.WithTimeout(t.life, t.lasts)
		context.AfterFunc(ctx, cancel) // those who share it may use it to its end
		t.ctx, t.until = ctx, now.Add(t.lasts/8)
	}
	return t.ctx
}
