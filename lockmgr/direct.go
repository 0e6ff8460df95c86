package lockmgr

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// A request is sent by its caller where that can be: a goroutine of its own for each
// costs as much as Redis does. But go-redis does not see that a context was cancelled
// while it waits for a reply. So the caller waits for a moment only; if Redis does not
// answer within that, this request and those of the next second get goroutines, and
// their callers end with their contexts at once.
const (
	// directPatience is how long a caller waits itself, about.
	directPatience = 250 * time.Millisecond

	// slowAnswer is how long Redis may not answer before it counts as slow, also to a
	// caller who has less patience.
	slowAnswer = 50 * time.Millisecond

	// slowFor is how long it then does.
	slowFor = time.Second
)

// errNoAnswer says that Redis did not answer within requestTimeout. It is no deadline of
// the caller's.
var errNoAnswer = errors.New("redis did not answer")

// unattended sends a request that goes on when its caller has given up.
func (m *Manager) unattended(send func(ctx context.Context) *redis.Cmd) (*redis.Cmd, error) {
	ctx := m.requests.Context()
	cmd := send(ctx)
	return cmd, noAnswer(ctx, cmd.Err())
}

// noAnswer returns errNoAnswer for a request that failed because ctx, its own, has ended.
func noAnswer(ctx context.Context, err error) error {
	if deadline, _ := ctx.Deadline(); !answered(err) && !time.Now().Before(deadline) {
		return errNoAnswer
	}
	return err
}

// errSlow says that Redis did not answer within directPatience. The request may have been
// carried out.
var errSlow = errors.New("redis is slow")

// sendMode says how the requests of a context are sent. It is a key of the context.
type sendMode struct{}

const (
	sendDirectly   = "directly"   // by themselves, by the caller
	sendUnattended = "unattended" // they go on when their callers have given up
)

// pending is a request that shares a round trip, and that its caller may leave behind: a
// pipeline sends it all the same. It is the value of the context's sendMode.
type pending struct {
	sent redis.AutoFuture
	cmd  redis.Cmder // nil unless it was left behind
}

// prompt reports whether Redis has answered in time of late. A closed Manager asks
// nothing directly.
func (m *Manager) prompt() bool {
	return time.Now().UnixNano() > m.slowUntil.Load() && m.life.Err() == nil
}

// alone reports whether there is nobody with whom a request could share a round trip.
func (m *Manager) alone() bool { return m.underway.Load() == 0 }

// direct sends a request in the caller's goroutine. It fails with errSlow, the cause of
// ctx, ErrClosed, or the client's error. left is not nil if the request may still be in a
// pipeline.
func (m *Manager) direct(ctx context.Context, send func(ctx context.Context) *redis.Cmd) (_ *redis.Cmd, left *pending, _ error) {
	own, near := m.moments.Context(), false
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < directPatience {
		own, near = ctx, true
	}
	var share *pending
	switch {
	case !m.alone():
		share = &pending{}
		own = context.WithValue(own, sendMode{}, share)
	case near:
		own = context.WithValue(own, sendMode{}, sendDirectly)
	}
	sent := time.Now()
	cmd := send(own)
	err := cmd.Err()
	if answered(err) {
		return cmd, nil, err
	}
	if time.Since(sent) > slowAnswer {
		m.slowUntil.Store(time.Now().Add(slowFor).UnixNano())
	}
	if share != nil && share.cmd != nil {
		left = share
	}
	if deadline, _ := own.Deadline(); !time.Now().Before(deadline) {
		<-own.Done() // the client looks at the clock, a context has a timer
	}
	switch ended := m.ended(ctx); {
	case ended != nil:
		return nil, left, ended
	case own.Err() == nil:
		return cmd, left, err
	}
	return nil, left, errSlow
}
