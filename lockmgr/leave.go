package lockmgr

import (
	"context"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// Leave gives up: it takes the token out of the queue, and gives the lock back if the token
// holds it, after what was asked has ended. Then the slot has a new token. If Redis does not
// answer soon, Leave goes on without the caller; if Redis does not answer at all, the claim
// or the TTL ends the hold.
func (s *Slot) Leave() {
	s.leave()
	s.Renew()
}

// Return is Leave for a token that was renewed already.
func (s *Slot) Return(token string) { leave(s.m, nil, true, s.leaver(token)) }

// Close stops listening for wake-ups. It gives nothing back; see Leave.
func (s *Slot) Close() { s.m.wakes.remove(s) }

// leave is Leave for a slot that is not used any more.
func (s *Slot) leave() { leave(s.m, s.asked, s.inDoubt, s.leaver(s.Token())) }

func (s *Slot) leaver(token string) leaver { return leaver{s.on.only(lockKeys), token} }

// leaver is a token that may wait for a lock or hold it, and has to end both.
type leaver struct {
	on    scriptKeys
	token string
}

// leave removes what Redis knows of leavers, after the request has ended by which it knows
// of them. If Redis does not answer at once, leave goes on without the caller.
func leave(m *Manager, asked *call[*redis.Cmd], inDoubt bool, leavers ...leaver) {
	start(m.life, func() (struct{}, error) {
		if asked != nil {
			<-asked.done
			inDoubt = inDoubt || !redisconn.Answered(asked.err)
		}
		clean(m, leavers)
		if inDoubt {
			// A request whose answer never came may lie unread in a connection, and be read
			// after the one that has just been answered, but before the next one.
			clean(m, leavers)
		}
		return struct{}{}, nil
	}).waitAtMost(cleanupWait)
}

// clean asks Redis once to remove what it knows of leavers.
func clean(m *Manager, leavers []leaver) {
	// Not a caller's context: that one has ended.
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	for _, l := range leavers {
		_ = m.sender.run(ctx, leaveScript, l.on, l.token).Err()
	}
}
