package lockmgr

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// slot is a token on its way to a lock: it asks for the lock, may have to wait in the
// queue, and gives up. It is used by one goroutine at a time.
type slot struct {
	m     *Manager
	name  string
	on    onKeys
	token string

	// The request by which the token may have got the lock, or a place in the queue, and
	// that has not been seen to end; nil if there is none.
	asked *call[*redis.Cmd]
	doubt bool // a request has ended without an answer
}

func (m *Manager) newSlot(name string, keys ...string) slot {
	return slot{m: m, name: name, on: m.onKeys(append(m.Keys(name), keys...)), token: m.newToken(name)}
}

// ask sends a request by which the token may get the lock, or a place in the queue. It
// returns the cause of ctx, or ErrClosed, soon after ctx has ended or the Manager was
// closed; the request may then still be carried out, and leave comes after it.
func (s *slot) ask(ctx context.Context, send func(ctx context.Context) *redis.Cmd) (*redis.Cmd, error) {
	if err := s.m.ended(ctx); err != nil {
		return nil, err
	}
	if s.m.prompt() {
		cmd, left, err := s.m.direct(ctx, send)
		s.doubt = s.doubt || !answered(err)
		if left != nil {
			s.asked = start(s.m, func() (*redis.Cmd, error) {
				own := s.m.requests.Context()
				if err := left.sent.WaitContext(own); err == nil || !answered(err) {
					cmd, _ := left.cmd.(*redis.Cmd)
					return cmd, noAnswer(own, err)
				}
				return s.m.unattended(send) // Redis did not know the script, or is not the one to ask
			})
		}
		if !errors.Is(err, errSlow) {
			return cmd, err
		}
	}
	if s.asked == nil {
		s.asked = start(s.m, func() (*redis.Cmd, error) { return s.m.unattended(send) })
	}
	cmd, err := s.asked.waitOpen(ctx, s.m)
	select {
	case <-s.asked.done:
		s.doubt = s.doubt || !answered(s.asked.err)
		s.asked = nil
	default: // it goes on without us; leave waits for it
	}
	return cmd, err
}

// leave takes the token out of the queue, and gives back what it may have been given,
// after the last request has ended. If Redis does not answer at once, it goes on without
// the caller; if it does not answer at all, the claim or the TTL does it.
func (s *slot) leave() { s.m.leave(*s) }

// leave is slot.leave for several slots. The first one has made their requests.
func (m *Manager) leave(slots ...slot) {
	asked, doubt := slots[0].asked, slots[0].doubt
	left := start(m, func() (struct{}, error) {
		if asked != nil {
			<-asked.done
			doubt = doubt || !answered(asked.err)
		}
		m.clean(slots)
		if doubt {
			// A request whose answer never came may lie unread in a connection, and be read
			// after the one that has just been answered, but before the next one.
			m.clean(slots)
		}
		return struct{}{}, nil
	})
	waitAtMost(left.done, cleanupPatience)
}

// clean removes what Redis may know of slots.
func (m *Manager) clean(slots []slot) {
	// Not a caller's context: that one has ended.
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	for i := range slots {
		_ = m.runOn(ctx, leaveScript, slots[i].on.lockOnly(), slots[i].token).Err()
	}
}

// answered reports whether Redis has answered a request that ended with err.
func answered(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}

// pause waits for d, or returns why ctx ended before.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
