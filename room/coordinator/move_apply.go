package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/lockmgr"
	"roomd/room"
)

// fieldMoved is the field of Meta that keeps the token of the last move which wrote to the room.
// The field by:<node> is the worker's, which would otherwise not recognise a commit of its own.
const fieldMoved = "moved"

// fieldArg is the index of the field for the token among the arguments of a commit.
const fieldArg = 2

// half is what is done to one of the two rooms.
type half struct {
	room   *room.Room
	commit *commit
	result room.Result
	since  map[string]int64 // when the users that are members joined
	later  *room.Room       // as it is by now, if others have written since; else nil
}

// ruledOut is an error of the rules of a room.
type ruledOut struct{ error }

func (e *ruledOut) Unwrap() error { return e.error }

// apply reads both rooms, applies the move to them, and commits it.
func (m *move) apply(ctx context.Context, who *identity, locks *lockmgr.Locks) (left, joined room.Result, err error) {
	from, err := m.prepare(ctx, m.from, m.release, who, locks)
	if err != nil {
		return from.result, joined, err
	}
	to, err := m.prepare(ctx, m.to, m.reserve, who, locks)
	if err != nil {
		return from.result, to.result, err
	}
	if m.store.cluster {
		err = m.commitEach(to, from)
	} else if err = m.commit(to, from); err == nil {
		m.committed(to, from)
	}
	if errors.Is(err, errUnanswered) {
		err = m.describe(room.ErrUnknown, err)
	}
	return from.result, to.result, err
}

func (m *move) prepare(ctx context.Context, id string, a room.Action, who *identity, locks *lockmgr.Locks) (*half, error) {
	h := &half{result: room.Result{Node: who.node}, since: make(map[string]int64)}
	known := m.feeds.at(id)
	r, err := m.store.load(ctx, id)
	if err != nil {
		return h, err
	}
	if known.Lost(r.Position) {
		r.Renew()
	}
	h.room, h.result.Snapshot = r, r.Snapshot()
	for _, user := range a.Users() {
		if member, ok := r.Member(user); ok {
			h.since[user] = member.At
		}
	}
	if h.result.Seat, err = r.Apply(a, m.opts.Rules, room.Origin{Node: who.node, At: time.Now().UnixMilli()}); err != nil {
		return h, &ruledOut{err}
	}
	h.commit = m.store.prepare(r, m.store.keysOf(id), hold{who: who, token: locks.Lock(id).Token()})
	h.commit.args[fieldArg] = fieldMoved
	return h, nil
}

// committed publishes what is written on this node.
func (m *move) committed(halves ...*half) {
	for _, h := range halves {
		if h.later != nil {
			h.result.Snapshot = h.later.Snapshot()
			continue
		}
		if h.commit.event != nil {
			call(m.opts.Trace.Committed)
			m.episodes.incomplete(h.commit)
			m.feeds.committed(h.room.ID, h.commit.event)
		}
		if h.room.Renewed() {
			m.episodes.partial.Happened(nil, "room", h.room.ID)
		}
		h.room.Commit(h.commit.epoch, h.commit.mark)
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
