package room

import (
	"context"
	"sync"
	"time"
)

// brief gives out contexts for requests that are to end within a given time.
// Requests that are made at about the same time share one: with its timer and its
// channel a context costs as much as the rest of a request.
type brief struct {
	life  context.Context
	lasts time.Duration

	mu   sync.Mutex
	ctx  context.Context    // guarded by mu: the latest
	made time.Time          // guarded by mu
	end  context.CancelFunc // guarded by mu: not called, as those who have ctx still use it; it ends by itself
}

// context returns a context that ends when between 9 and 10 tenths of the time have
// passed.
func (b *brief) context() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.ctx == nil || now.Sub(b.made) > b.lasts/10 {
		b.ctx, b.end = context.WithTimeout(b.life, b.lasts)
		b.made = now
	}
	return b.ctx
}
