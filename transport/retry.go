package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/room"
)

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// backoff is the pauses between attempts at an action that no client asked for. Each is
// twice as long as the one before, up to lastPause, and shortened at random by up to a half:
// after an outage of Redis not all sessions come in the same instant.
type backoff struct{ pause time.Duration }

// wait waits until the next attempt. It reports false if ctx has ended.
func (b *backoff) wait(ctx context.Context) bool {
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	return redisconn.Pause(ctx, b.pause-rand.N(b.pause/2)) == nil
}

// isTransient reports whether an action that failed with err should be tried again. A join
// or a leave may be, also if it was done: the second time changes nothing.
func isTransient(err error) bool {
	return errors.Is(err, room.ErrUnavailable) || errors.Is(err, room.ErrBusy) || errors.Is(err, room.ErrUnknown) ||
		errors.Is(err, context.DeadlineExceeded)
}

// retrier runs actions until they have an answer.
type retrier struct {
	rooms   Rooms
	life    context.Context // of attempts
	timeout time.Duration   // of one attempt
}

// do runs an action until it has an answer, or ctx ends; an attempt that runs then is not
// broken off. It calls tried after each attempt. That the user is not a member is no error:
// the user came back with another session, or has left.
func (r *retrier) do(ctx context.Context, id string, action room.Action, tried func()) error {
	var pause backoff
	for {
		attempt, cancel := context.WithTimeout(r.life, r.timeout)
		_, err := r.rooms.Do(attempt, id, action)
		cancel()
		tried()
		switch {
		case errors.Is(err, room.ErrNotMember):
			return nil
		case !isTransient(err), !pause.wait(ctx):
			return err
		}
	}
}
