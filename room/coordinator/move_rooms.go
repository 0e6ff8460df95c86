package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// half is what is done to one of the two rooms.
type half struct {
	room   *room.Room
	commit *store.Commit
	result room.Result
	since  map[string]int64 // when the users that are members joined
	later  *room.Room       // as it is by now, if others have written since; else nil
}

// ruledOut is an error of the rules of a room.
type ruledOut struct{ error }

func (e *ruledOut) Unwrap() error { return e.error }

// apply reads both rooms, applies the move to them, and commits it.
func (m *move) apply(ctx context.Context, node string, locks *lockmgr.Locks) (left, joined room.Result, err error) {
	from, err := m.prepare(ctx, m.from, m.release, node, locks)
	if err != nil {
		return from.result, joined, err
	}
	to, err := m.prepare(ctx, m.to, m.reserve, node, locks)
	if err != nil {
		return from.result, to.result, err
	}
	if m.ws.store.Cluster {
		err = m.commitEach(to, from)
	} else if err = m.commit(to, from); err == nil {
		m.committed(to, from)
	}
	if errors.Is(err, errUnanswered) {
		err = m.describe(room.ErrUnknown, err)
	}
	return from.result, to.result, err
}

func (m *move) prepare(ctx context.Context, id string, a room.Action, node string, locks *lockmgr.Locks) (*half, error) {
	h := &half{result: room.Result{Node: node}, since: make(map[string]int64)}
	known := m.ws.feeds.At(id)
	r, err := m.ws.store.Load(ctx, id)
	if err != nil {
		return h, err
	}
	if known.Lost(r.Position) {
		r.Renew()
	}
	h.room = r
	if !r.Renewed() { // else nobody sees it before its new epoch
		h.result.Snapshot = r.Snapshot()
	}
	for _, user := range m.users {
		if member, ok := r.Member(user); ok {
			h.since[user] = member.At
		}
	}
	if h.result.Seat, err = r.Apply(a, m.ws.opts.Rules, room.Origin{Node: node, At: m.ws.timers.Now()}); err != nil {
		return h, &ruledOut{err}
	}
	h.commit = m.ws.store.Prepare(r, m.ws.store.KeysOf(id), store.Hold{Node: node, Token: locks.Lock(id).Token(), Moves: true})
	return h, nil
}

// committed publishes what is written on this node.
func (m *move) committed(halves ...*half) {
	for _, h := range halves {
		if h.later != nil {
			h.result.Snapshot = h.later.Snapshot()
			continue
		}
		m.ws.committed(h.room, h.commit)
		h.result.Snapshot = h.room.Snapshot()
	}
}

// hasRun reports whether a release has been carried out, in a room as it is now. The users leave
// together, so one of them who is there as before, and has not left and joined again, tells that it
// has not.
func (h *half) hasRun(now *room.Room) bool {
	for user, at := range h.since {
		if member, ok := now.Member(user); ok && member.At == at {
			return false
		}
	}
	return true
}

// describe returns how a move is called in an error.
func (m *move) describe(reason, why error) error {
	return fmt.Errorf("move from room %s to %s: %w: %w", m.from, m.to, reason, why)
}

// commitEach writes the two halves one after the other, since no script reaches the masters of both.
// No other move of the users can come in between: it needs the locks, and when one is lost the second
// script writes nothing. It fails as commit does; undo says whether there may be seats to give back.
func (m *move) commitEach(to, from *half) error {
	if to.commit.Event != nil { // else all of them are members there
		err := m.commit(to)
		if errors.Is(err, errUnanswered) {
			m.undo = m.newIn(to)
			return fmt.Errorf("reserve seats in room %s: %v", m.to, err)
		}
		if err != nil {
			return err
		}
		m.committed(to)
	}
	err := m.commit(from)
	if err == nil {
		m.committed(from)
		return nil
	}
	if to.commit.Event != nil && !errors.Is(err, errUnanswered) {
		m.undo = m.newIn(to)
	}
	if errors.Is(err, store.ErrStale) {
		err = store.ErrLost // from the beginning
	}
	return err
}

// newIn returns the users who had no seat in a room before the move. The seats of the others, which may
// have been reserved, stay theirs. It is not nil.
func (m *move) newIn(to *half) []string {
	return slices.DeleteFunc(slices.Clone(m.users), func(user string) bool { _, was := to.since[user]; return was })
}

// giveBack frees the seats that are reserved, and reserves those of the users who have left for them. The users are
// still in the room from.
func (m *move) giveBack() error {
	ctx, cancel := context.WithTimeout(m.ws.life.life, m.ws.opts.LockWait)
	defer cancel()
	users := m.undo
	failed := make([]error, len(users))
	var wg sync.WaitGroup
	for i, user := range users { // at once, so that they share a hold
		wg.Go(func() {
			_, err := m.ws.runAccepted(ctx, m.to, room.Leave{User: user, Session: m.session})
			if !errors.Is(err, room.ErrNotMember) { // one who was there before, or came with a session of its own
				failed[i] = err
			}
		})
	}
	wg.Wait()
	if m.back != nil && errors.Join(failed...) == nil { // who has not left keeps the seat
		_, err := m.ws.runAccepted(ctx, m.to, room.Reserve{Session: m.session, Users: m.back})
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// errUnanswered: Redis does not say whether halves of a move were written.
var errUnanswered = errors.New("no answer")

// commit writes halves of a move in one step. When the reply is lost it sends them again, which
// tells whether they were written, until the locks are over: then no copy of the request can be
// carried out any more, and Redis says so. It fails with store.ErrLost, store.ErrStale or store.ErrRefused, and then
// nothing is written once the locks are released; or with errUnanswered.
func (m *move) commit(halves ...*half) error {
	commits := make([]*store.Commit, len(halves))
	for i, h := range halves {
		commits[i] = h.commit
	}
	request, err := m.ws.store.NewMove(m.ws.locks, commits...)
	if err != nil {
		return err
	}
	defer request.Close()
	ctx, cancel := context.WithTimeout(m.ws.life.life, 2*m.ws.opts.LockTTL)
	defer cancel()
	var why error
	for again := false; ; again = true {
		attempt, end := context.WithTimeout(ctx, m.ws.opts.LockTTL/2)
		err := request.Send(attempt)
		end()
		switch {
		case err == nil || !again && store.IsDecided(err):
			return err
		case errors.Is(err, store.ErrStale):
			return store.ErrLost // the token of a request that may be on its way is not used again
		case errors.Is(err, store.ErrLost):
			return m.resolve(ctx, halves[len(halves)-1], why)
		case ctx.Err() == nil || why == nil:
			why = err
		}
		m.ws.logs.replies.Happened(err, "room", m.from)
		if pause.For(ctx, max(m.ws.opts.LockPoll, 10*time.Millisecond)) != nil {
			return fmt.Errorf("%w: %w", errUnanswered, why)
		}
	}
}

// resolve is called when Redis does not know the request any more, although it may have been carried
// out: the locks were lost, and another move may have been there since. The room that the users
// leave tells if they have not left.
func (m *move) resolve(ctx context.Context, last *half, why error) error {
	if last.room.ID != m.from {
		return fmt.Errorf("%w: %w", errUnanswered, why)
	}
	now, err := m.ws.store.Load(ctx, m.from)
	switch {
	case err == nil && !last.hasRun(now):
		return store.ErrLost
	case err == nil && m.ws.store.Cluster: // their seats in the other room are reserved
		last.later = now
		return nil
	}
	return fmt.Errorf("%w: %w", errUnanswered, errors.Join(why, err))
}
