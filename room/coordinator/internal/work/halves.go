package work

import (
	"context"
	"errors"
	"fmt"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// half is a move's part in one of its two rooms.
type half struct {
	room   *room.Room
	commit *store.Commit
	result room.Result
	since  map[string]int64 // when the users that are members joined, to tell whether they left since
	later  *room.Room       // the room as read afterwards, if others have written since; else nil
}

// ruledOut marks an error of a room's rules.
type ruledOut struct{ error }

func (e *ruledOut) Unwrap() error { return e.error }

// apply reads both rooms, applies the move to them, and commits it.
func (m *move) apply(ctx context.Context, node string, locks *lockmgr.Locks) (left, joined room.Result, err error) {
	from, err := m.load(ctx, m.from, node)
	if err != nil {
		return from.result, joined, err
	}
	to, err := m.load(ctx, m.to, node)
	if err != nil {
		return from.result, to.result, err
	}
	reserve := m.reserve
	reserve.Half = m.pool.store.Cluster
	reserve.Carried = from.room.Snapshot().Private(room.Viewer{Authority: true})
	undo := m.undoOf(to.room)
	if err := m.prepare(from, m.release, locks); err != nil {
		return from.result, joined, err
	}
	if err := m.prepare(to, reserve, locks); err != nil {
		return from.result, to.result, err
	}
	if m.pool.store.Cluster {
		err = m.commitEach(to, from, undo)
	} else if err = m.commit(to, from); err == nil {
		m.committed(to, from)
	}
	if errors.Is(err, errUnanswered) {
		err = m.describe(room.ErrUnknown, err)
	}
	return from.result, to.result, err
}

func (m *move) load(ctx context.Context, id, node string) (*half, error) {
	h := &half{result: room.Result{Node: node}, since: make(map[string]int64)}
	known := m.pool.Feeds.At(id)
	r, err := m.pool.store.Load(ctx, id)
	if err != nil {
		return h, err
	}
	if known.Lost(r.Position) {
		r.Renew()
	}
	h.room = r
	m.pool.Feeds.Recall(r)
	if !r.Renewed() { // else nobody may see it before its new epoch
		h.result.Snapshot = r.Snapshot()
	}
	for _, user := range m.release.Users {
		if member, ok := r.Member(user); ok {
			h.since[user] = member.At
		}
	}
	return h, nil
}

// prepare applies action a to the half's room, and prepares its commit. It fails with a ruledOut.
func (m *move) prepare(h *half, a room.Action, locks *lockmgr.Locks) (err error) {
	id, node := h.room.ID, h.result.Node
	if h.result.Seat, err = h.room.Apply(a, m.pool.opts.Rules,
		room.Origin{Node: node, At: m.pool.Timers.Now()}); err != nil {
		return &ruledOut{err}
	}
	h.commit = m.pool.store.Prepare(h.room, m.pool.store.KeysOf(id),
		store.Hold{Node: node, Token: locks.Lock(id).Token(), Moves: true})
	return nil
}

// committed informs this node of written halves, and completes their results.
func (m *move) committed(halves ...*half) {
	for _, h := range halves {
		if h.later != nil {
			h.result.Snapshot = h.later.Snapshot()
			continue
		}
		m.pool.committed(h.room, h.commit)
		h.result.Snapshot = h.room.Snapshot()
	}
}

// hasRun reports whether the release was carried out, judged by a later state of the room. The users leave together,
// so if one of them is still there since the same join, the release has not run.
func (h *half) hasRun(now *room.Room) bool {
	for user, at := range h.since {
		if member, ok := now.Member(user); ok && member.At == at {
			return false
		}
	}
	return true
}

// describe wraps why, an error of the move, together with reason.
func (m *move) describe(reason, why error) error {
	return fmt.Errorf("move from room %s to %s: %w: %w", m.from, m.to, reason, why)
}

// commitEach writes the two halves one after the other, since no script reaches two masters. No other move of the
// users can come in between: it would need the locks, and when a lock is lost the second script writes nothing. If it
// fails after the reservation was or may have been written, and the release certainly was not, it sets m.undo.
func (m *move) commitEach(to, from *half, undo *room.Undo) error {
	if to.commit.Event != nil { // else all users are members there already
		err := m.commit(to)
		if errors.Is(err, errUnanswered) {
			m.undo = undo
			return fmt.Errorf("reserve seats in room %s: %v", m.to, err)
		}
		if err != nil {
			return err
		}
		undo.Written = true
		m.committed(to)
	}
	err := m.commit(from)
	if err == nil {
		m.committed(from)
		return nil
	}
	if to.commit.Event != nil && !errors.Is(err, errUnanswered) {
		m.undo = undo
	}
	if errors.Is(err, store.ErrStale) {
		err = store.ErrLost // start over
	}
	return err
}

// undoOf returns the action that undoes the move in room m.to. to is that room, still as before the move.
func (m *move) undoOf(to *room.Room) *room.Undo {
	undo := &room.Undo{Session: m.reserve.Session, Since: to.Next() - 1, Data: to.State().Data,
		Were: make(map[string]room.Member), Users: m.reserve.Users}
	for _, user := range m.reserve.Users {
		if member, ok := to.Member(user); ok {
			undo.Were[user] = member
		}
	}
	return undo
}

// then completes or undoes the reservation in room m.to, once the move has given the locks back.
func (m *move) then(a room.Upkeep) error {
	ctx, cancel := context.WithTimeout(m.pool.life, m.pool.opts.LockWait)
	defer cancel()
	_, err := m.pool.runAccepted(ctx, m.to, a)
	return err
}

// errUnanswered: Redis does not say whether halves of a move were written.
var errUnanswered = errors.New("no answer")

// commit writes halves of a move atomically. It sends them again until Redis says whether they were written, or until
// the locks have expired: then no copy of the request can take effect any more. With errUnanswered the outcome is open.
// After another error, such as store.ErrLost, ErrStale or ErrRefused, nothing is written once the locks are released.
func (m *move) commit(halves ...*half) error {
	commits := make([]*store.Commit, len(halves))
	for i, h := range halves {
		commits[i] = h.commit
	}
	request, err := m.pool.store.NewMove(m.pool.locks, commits...)
	if err != nil {
		return err
	}
	defer request.Close()
	ctx, cancel := context.WithTimeout(m.pool.life, 2*m.pool.opts.LockTTL)
	defer cancel()
	for _, c := range commits {
		if err := m.pool.announce(ctx, c); err != nil {
			return err
		}
	}
	send := func(ctx context.Context) error {
		attempt, end := context.WithTimeout(ctx, m.pool.opts.LockTTL/2)
		defer end()
		return request.Send(attempt)
	}
	why := send(ctx)
	if store.IsDecided(why) {
		return why
	}
	decided, err := m.pool.resend(ctx, m.from, why, send)
	switch {
	case !decided, errors.Is(err, store.ErrRefused): // an earlier copy may still arrive
		return fmt.Errorf("%w: %w", errUnanswered, err)
	case errors.Is(err, store.ErrStale): // a token that may be on its way twice is not used again
		return store.ErrLost
	case errors.Is(err, store.ErrLost):
		return m.resolve(ctx, halves[len(halves)-1], why)
	}
	return err
}

// resolve decides a commit that lost its locks before Redis answered: Redis no longer knows the request, and another
// move may have come since. If a user is still in room m.from, nothing was written; otherwise, on Cluster, the release
// was. In all other cases the outcome stays open.
func (m *move) resolve(ctx context.Context, last *half, why error) error {
	if last.room.ID != m.from {
		return fmt.Errorf("%w: %w", errUnanswered, why)
	}
	now, err := m.pool.store.Load(ctx, m.from)
	switch {
	case err == nil && !last.hasRun(now):
		return store.ErrLost
	case err == nil && m.pool.store.Cluster: // the users' seats in the other room are reserved
		last.later = now
		return nil
	}
	return fmt.Errorf("%w: %w", errUnanswered, errors.Join(why, err))
}
