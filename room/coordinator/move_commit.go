package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
)

// errUnanswered: Redis does not say whether halves of a move were written.
var errUnanswered = errors.New("no answer")

// commit writes halves of a move in one step. When the reply is lost it sends them again, which
// tells whether they were written, until the locks are over: then no copy of the request can be
// carried out any more, and Redis says so. It fails with errLost, errStale or errRefused, and then
// nothing is written once the locks are given back; or with errUnanswered.
func (m *move) commit(halves ...*half) error {
	request, err := m.newRequest(halves)
	if err != nil {
		return err
	}
	defer request.slot.Close()
	ctx, cancel := context.WithTimeout(m.lifetime.life, 2*m.opts.LockTTL)
	defer cancel()
	var why error
	for again := false; ; again = true {
		attempt, end := context.WithTimeout(ctx, m.opts.LockTTL/2)
		err := request.send(attempt, m.store)
		end()
		switch {
		case err == nil || !again && decided(err):
			return err
		case errors.Is(err, errStale):
			return errLost // the token of a request that may be on its way is not used again
		case errors.Is(err, errLost):
			return m.settle(ctx, halves[len(halves)-1], why)
		case ctx.Err() == nil || why == nil:
			why = err
		}
		m.episodes.replies.Happened(err, "room", m.from)
		if redisconn.Pause(ctx, max(m.opts.LockPoll, 10*time.Millisecond)) != nil {
			return fmt.Errorf("%w: %w", errUnanswered, why)
		}
	}
}

// settle is called when Redis does not know the request any more, although it may have been carried
// out: the locks were lost, and another move may have been there since. The room that the users
// leave tells if they have not left.
func (m *move) settle(ctx context.Context, last *half, why error) error {
	if last.room.ID != m.from {
		return fmt.Errorf("%w: %w", errUnanswered, why)
	}
	now, err := m.store.load(ctx, m.from)
	switch {
	case err == nil && !last.hasRun(now):
		return errLost
	case err == nil && m.store.cluster: // their seats in the other room are reserved
		last.later = now
		return nil
	}
	return fmt.Errorf("%w: %w", errUnanswered, errors.Join(why, err))
}

// moveRequest is a request of the script move.lua.
type moveRequest struct {
	halves []*half
	slot   *lockmgr.Slot // of the first room's lock, which has the keys of all
	args   []any
}

func (m *move) newRequest(halves []*half) (*moveRequest, error) {
	q := &moveRequest{halves: halves}
	var keys []string
	for i, h := range halves {
		if i > 0 { // the slot has those of the first
			keys = append(keys, m.locks.Keys(h.room.ID)...)
		}
		keys = append(keys, h.commit.keys.users, h.commit.keys.meta, h.commit.keys.log)
		q.args = append(append(q.args, len(h.commit.args)), h.commit.args...)
	}
	var err error
	q.slot, err = m.locks.Slot(halves[0].room.ID, keys...)
	return q, err
}

// send sends the request once. With Options.Replicas it waits until so many have what was written.
func (q *moveRequest) send(ctx context.Context, s *store) error {
	var cmd *redis.Cmd
	var unacked error
	if s.acks == 0 {
		cmd = q.slot.Run(ctx, moveScript, q.args...)
	} else {
		conn, err := s.connFor(ctx, q.halves[0].commit.keys.meta)
		if err != nil {
			return err
		}
		defer conn.Close()
		cmd, unacked = s.acked(ctx, conn, moveScript, q.slot.Command(moveScript, q.args...))
	}
	reply, err := cmd.Slice()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"): // found before anything was written
		return fmt.Errorf("%w: %w", errRefused, err)
	case err != nil:
		return err
	case reply[0] == "done":
		for i, h := range q.halves {
			if reply := reply[1:]; len(reply) > 2*i+1 { // else it was written before
				h.commit.unheard, _ = reply[2*i].(string)
				h.commit.unlogged, _ = reply[2*i+1].(string)
			}
		}
		return unacked
	case reply[0] == "lost":
		return errLost
	case reply[0] == "stale":
		return errStale
	case reply[0] == "refused":
		return fmt.Errorf("%w: %v", errRefused, reply[1])
	}
	return fmt.Errorf("move answered %q", reply[0])
}
