package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
	"roomd/room"
)

// Move takes users from one room to another: all of them, or none. They are never without a seat.
// In the room to, their seats are reserved under the session (see [room.Reserve]) until sessions of
// the users join, and they leave the room from with [room.ReasonMoved]. Whoever calls Move has to
// give up what is reserved after a while, with a Leave of the session.
//
// On one Redis a script does both, under the locks of both rooms. On Redis Cluster, where the rooms
// may be on two masters, the seats are reserved first:
//
//   - If that fails, or this node dies before, nothing has happened.
//   - If this node dies then, the users are in both rooms. They stay in from; their seats in to are
//     free when the node's lease and Options.Grace are over.
//   - If the users cannot leave from, their seats in to are given back.
//   - If this node dies after the users have left from, their sessions join to, as always.
//
// It fails with the errors of [Coordinator.Do]; with [room.ErrNotMember] if one of the users is not
// in the room from. After [room.ErrUnknown] the users may be in either room, or in both on Cluster.
func (c *Coordinator) Move(ctx context.Context, from, to, session string, users ...string) (left, joined room.Result, err error) {
	start := time.Now()
	left, joined, err = c.move(ctx, from, to, session, users)
	if done := c.opts.Trace.Done; done != nil {
		done(room.KindMove, err, time.Since(start))
	}
	return left, joined, err
}

func (c *Coordinator) move(ctx context.Context, from, to, session string, users []string) (left, joined room.Result, err error) {
	if err := room.CheckID(from); err != nil {
		return left, joined, err
	}
	if err := room.CheckID(to); err != nil {
		return left, joined, &room.InvalidError{Field: "to", Problem: err.(*room.InvalidError).Problem}
	}
	if from == to {
		return left, joined, &room.InvalidError{Field: "to", Problem: "is the room itself"}
	}
	m := move{Coordinator: c, from: from, to: to}
	if m.release, err = room.ReleaseTo(to, users...).Check(c.opts.Rules); err != nil {
		return left, joined, err
	}
	if m.reserve, err = room.Reserve(session, users...).Check(c.opts.Rules); err != nil {
		return left, joined, err
	}
	if c.store.cluster {
		return m.byReservation(ctx, session)
	}
	return m.underLocks(ctx)
}

// move is one Move.
type move struct {
	*Coordinator
	from, to         string
	release, reserve room.Action
}

// underLocks moves the users in one step, on one Redis.
func (m *move) underLocks(ctx context.Context) (left, joined room.Result, err error) {
	if m.lifetime.open.Err() != nil {
		return left, joined, room.ErrClosed
	}
	limited, cancel := context.WithTimeout(ctx, m.opts.LockWait)
	defer cancel()
	// A worker that deletes this node's records in one of the rooms meanwhile would delete those
	// of this move.
	end := m.membership.registration.records.hold(m.from, m.to)
	defer end()
	who, err := m.register(limited)
	if err != nil {
		return left, joined, m.failed(ctx, err)
	}
	locks, err := m.locks.AcquireAll(limited, m.from, m.to)
	if err != nil {
		return left, joined, m.failed(ctx, err)
	}
	defer func() {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.LockTTL)
		defer cancel()
		_ = locks.Release(release) // what is not given back expires
	}()
	if now, valid := m.membership.lease.holder(); !valid || now != who {
		return left, joined, fmt.Errorf("move: %w: the node's lease is over", room.ErrUnavailable)
	}
	for stale := 0; ; stale++ {
		left, joined, err = m.apply(limited, who, locks)
		if !errors.Is(err, errStale) || stale == maxStale {
			break
		}
	}
	switch {
	case errors.Is(err, errStale), errors.Is(err, errLost), errors.Is(err, errRefused):
		err = fmt.Errorf("move from room %s to %s: %w: %w", m.from, m.to, room.ErrUnavailable, err)
	case err == nil && m.opts.Replicas > 0:
		err = m.confirm(ctx)
	}
	return left, joined, err
}

// register records that this node may have members in both rooms.
func (m *move) register(ctx context.Context) (who *identity, err error) {
	if err := m.membership.start(ctx); err != nil {
		return nil, err
	}
	for {
		if who, err = m.membership.register(ctx, m.from, nil); err != nil {
			return nil, err
		}
		again, err := m.membership.register(ctx, m.to, nil)
		if err != nil || again == who {
			return again, err
		}
	}
}

// failed returns why nothing could be begun.
func (m *move) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, room.ErrClosed), errors.Is(err, lockmgr.ErrClosed):
		return room.ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("gave up waiting for rooms %s and %s: %w", m.from, m.to, context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		return room.Refuse(room.ErrBusy, "room %s or %s is busy: their locks could not be had within %v", m.from, m.to, m.opts.LockWait)
	}
	return fmt.Errorf("move from room %s to %s: %w: %w", m.from, m.to, room.ErrUnavailable, err)
}

// apply reads both rooms, applies the move to them, and commits it.
func (m *move) apply(ctx context.Context, who *identity, locks *lockmgr.Locks) (left, joined room.Result, err error) {
	first, left, err := m.prepare(ctx, m.from, m.release, who, locks)
	if err != nil {
		return left, joined, err
	}
	second, joined, err := m.prepare(ctx, m.to, m.reserve, who, locks)
	if err != nil {
		return left, joined, err
	}
	if err = m.commit(first, second); err != nil {
		return left, joined, err
	}
	for _, part := range []struct {
		*half
		result *room.Result
	}{{first, &left}, {second, &joined}} {
		if part.commit.event != nil {
			m.feeds.committed(part.room.ID, part.commit.event)
		}
		part.room.Commit(part.commit.epoch, part.commit.mark)
		part.result.Snapshot = part.room.Snapshot()
	}
	return left, joined, nil
}

// half is what is done to one of the two rooms.
type half struct {
	room   *room.Room
	commit *commit
}

func (m *move) prepare(ctx context.Context, id string, a room.Action, who *identity, locks *lockmgr.Locks) (*half, room.Result, error) {
	result := room.Result{Node: who.node}
	known := m.feeds.at(id)
	r, err := m.store.load(ctx, id)
	if err != nil {
		return nil, result, fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	if known.Lost(r.Position) {
		r.Renew()
	}
	result.Snapshot = r.Snapshot()
	if result.Seat, err = r.Apply(a, m.opts.Rules, room.Origin{Node: who.node, At: time.Now().UnixMilli()}); err != nil {
		return nil, result, err
	}
	c := m.store.prepare(r, m.store.keysOf(id), hold{who: who, token: locks.Lock(id).Token()})
	return &half{r, c}, result, nil
}

// commit writes both halves. When the reply is lost it sends them again, which tells whether
// they were written, as long as the locks may be held. It fails with errLost, errStale,
// errRefused or ErrUnknown.
func (m *move) commit(first, second *half) error {
	a, b := first.commit, second.commit
	keys := append(m.locks.Keys(m.to), a.keys.users, a.keys.meta, a.keys.log, b.keys.users, b.keys.meta, b.keys.log)
	args := append(append([]any{len(a.args)}, a.args...), b.args...)
	ctx, cancel := context.WithTimeout(m.lifetime.life, m.opts.LockTTL)
	defer cancel()
	for again := false; ; again = true {
		attempt, end := context.WithTimeout(ctx, m.opts.LockTTL/2)
		reply, err := m.locks.Run(attempt, moveScript, m.from, keys, args...).Slice()
		end()
		switch {
		case err == nil && reply[0] == "done":
			for i, c := range []*commit{a, b} {
				c.unheard, _ = reply[1+2*i].(string)
				c.unlogged, _ = reply[2+2*i].(string)
				m.episodes.incomplete(c)
			}
			return nil
		case err == nil && reply[0] == "refused":
			return fmt.Errorf("%w: %v", errRefused, reply[1])
		case err == nil && !again && reply[0] == "stale":
			return errStale
		case err == nil && !again:
			return errLost
		case err == nil:
			err = errLost // by now; the earlier request may have been carried out before
		}
		if !errors.Is(err, errLost) {
			m.episodes.replies.Happened(err, "room", m.from)
		}
		if errors.Is(err, errLost) || redisconn.Pause(ctx, max(m.opts.LockPoll, 10*time.Millisecond)) != nil {
			return fmt.Errorf("move from room %s to %s: %w: %w", m.from, m.to, room.ErrUnknown, err)
		}
	}
}

// confirm waits until enough replicas have both rooms: each gets a version that they must have.
func (m *move) confirm(ctx context.Context) error {
	for _, id := range []string{m.from, m.to} {
		if _, err := m.workers.run(ctx, id, room.Confirm()); err != nil {
			return fmt.Errorf("move from room %s to %s: %w: %w", m.from, m.to, room.ErrUnknown, err)
		}
	}
	return nil
}
