package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"roomd/room"
)

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// backoff is the pauses between the attempts at something that the server does of
// its own accord. Each is twice as long as the one before, up to lastPause, and
// shortened at random by up to a half: after an outage of Redis not everybody
// comes in the same instant.
type backoff struct{ pause time.Duration }

// wait waits for the next attempt. It reports whether there should be one: ctx has
// not ended.
func (b *backoff) wait(ctx context.Context) bool {
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	t := time.NewTimer(b.pause - rand.N(b.pause/2))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// passing reports whether an action that failed with err should be tried again.
// Joins and leaves of one session can be: done twice they do no more than once.
func passing(err error) bool {
	return errors.Is(err, room.ErrUnavailable) || errors.Is(err, room.ErrBusy) || errors.Is(err, room.ErrUnknown) ||
		errors.Is(err, context.DeadlineExceeded)
}
