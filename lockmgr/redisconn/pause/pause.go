// Package pause waits: for some time, or between attempts at something that fails. It does not import Redis, so
// clients of the server can use it, too.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. If ctx ends before that, For returns the cause.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Backoff chooses the pauses between attempts. The bound of each pause is twice the bound before, up to Max.
// With Jitter, clients that lost the same server come back one by one. Set the fields before the first use. A
// Backoff is for one goroutine.
type Backoff struct {
	First, Max time.Duration  // bound of the first pause, and of any pause
	Jitter     float64        // random share of a pause, from 0 to 1
	Random     func() float64 // returns a number from 0 up to, but not including, 1; nil is math/rand's

	bound time.Duration // of the last pause, 0 before the first
}

// Next returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	switch {
	case b.bound == 0:
		b.bound = min(b.First, b.Max)
	case b.bound > b.Max/2:
		b.bound = b.Max
	default:
		b.bound *= 2
	}
	if b.Jitter == 0 {
		return b.bound
	}
	random := b.Random
	if random == nil {
		random = rand.Float64
	}
	return time.Duration(float64(b.bound) * (1 - b.Jitter + b.Jitter*random()))
}

// Wait waits for the next pause. If ctx ends before that, Wait returns the cause.
func (b *Backoff) Wait(ctx context.Context) error { return For(ctx, b.Next()) }

// Reset starts again with the first pause. Call it after a success.
func (b *Backoff) Reset() { b.bound = 0 }
