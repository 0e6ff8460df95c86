package transport

import (
	"context"
	"sync"
	"time"
)

// patience hands out contexts that end after some time, or up to an eighth later.
// Those who ask within that eighth share one: a timer for each of them would cost
// more than most have to do.
type patience struct {
	life context.Context
	time time.Duration

	mu    sync.Mutex
	last  context.Context // guarded by mu: the context that was handed out last
	until time.Time       // guarded by mu: when it ends
}

func (p *patience) context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.until.Sub(now) < p.time {
		ctx, cancel := context.WithCancelCause(p.life)
		longer := p.time + p.time/8
		time.AfterFunc(longer, func() { cancel(context.DeadlineExceeded) })
		p.last, p.until = ctx, now.Add(longer)
	}
	return p.last
}
