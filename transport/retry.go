package transport

import (
	"context"
	"errors"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/transport/internal/membership"
)

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// newBackoff returns the pauses between attempts at an action that no client asked for: after an outage of
// Redis not all sessions come in the same instant.
func newBackoff() pause.Backoff {
	return pause.Backoff{First: firstPause, Max: lastPause, Jitter: .5}
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
	backoff := newBackoff()
	for {
		attempt, cancel := context.WithTimeout(r.life, r.timeout)
		_, err := r.rooms.Do(attempt, id, action)
		cancel()
		tried()
		switch {
		case errors.Is(err, room.ErrNotMember):
			return nil
		case !membership.IsTransient(err), backoff.Wait(ctx) != nil:
			return err
		}
	}
}
