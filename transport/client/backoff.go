package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff chooses the pauses between attempts: exponential, with full jitter, so that clients which
// lost their connections together come back one by one.
type backoff struct {
	base, limit time.Duration
	attempts    int
	random      func() float64 // from 0 to below 1; nil is math/rand's
}

// next returns how long to wait before the next attempt: from 0 to base·2ⁿ, but less than limit.
func (b *backoff) next() time.Duration {
	bound := b.limit
	if b.attempts < 32 { // beyond that the shift could overflow
		bound = min(bound, b.base<<b.attempts)
	}
	if bound <= 0 {
		bound = b.limit
	}
	b.attempts++
	random := b.random
	if random == nil {
		random = rand.Float64
	}
	return time.Duration(random() * float64(bound))
}

func (b *backoff) reset() { b.attempts = 0 }

// pause waits for the next time. It returns false if ctx ended before.
func (b *backoff) pause(ctx context.Context) bool { return sleep(ctx, b.next()) }

// sleep waits. It returns false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
