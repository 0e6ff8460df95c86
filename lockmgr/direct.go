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

	// slowFor is how long Redis then counts as slow.
	slowFor = time.Second
)

// errSlow says that Redis did not answer within directPatience. The request may have been
// carried out.
var errSlow = errors.New("redis is slow")

// sendMode says how the requests of a context are sent. It is a key of the context.
type sendMode struct{}

const (
	sendDirectly   = "directly"   // by themselves, by the caller
	sendUnattended = "unattended" // they go on when their callers have given up
)

// prompt reports whether Redis has answered in time of late, and there is nobody with
// whom a request could share a round trip. A closed Manager asks nothing directly.
func (m *Manager) prompt() bool {
	return time.Now().UnixNano() > m.slowUntil.Load() && m.underway.Load() == 0 && m.life.Err() == nil
}

// direct sends a request in the caller's goroutine. It fails with errSlow, the cause of
// ctx, ErrClosed, or the client's error.
func (m *Manager) direct(ctx context.Context, send func(ctx context.Context) *redis.Cmd) (*redis.Cmd, error) {
	own := m.moments.Context()
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < directPatience {
		own = context.WithValue(ctx, sendMode{}, sendDirectly)
	}
	cmd := send(own)
	err := cmd.Err()
	if answered(err) {
		return cmd, err
	}
	if deadline, _ := own.Deadline(); !time.Now().Before(deadline) {
		<-own.Done() // the client looks at the clock, a context has a timer
	}
	switch ended := m.ended(ctx); {
	case ended != nil:
		return nil, ended
	case own.Err() == nil:
		return cmd, err
	}
	m.slowUntil.Store(time.Now().Add(slowFor).UnixNano())
	return nil, errSlow
}
