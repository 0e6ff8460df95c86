package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/lockmgr"
	"roomd/room"
)

// Move takes users from one room to another: all of them, or none. They are never without a seat.
// In the room to, their seats are reserved under the session (see [room.Reserve]) until sessions of
// the users join, and they leave the room from with [room.ReasonMoved]. The session has to be one
// that nothing else uses. Whoever calls Move has to give up what is reserved after a while, with a
// Leave of the session.
//
// Both rooms are locked meanwhile. On one Redis a script writes to both. On Redis Cluster, where
// the rooms may be on two masters, one script reserves the seats, and then another one has the
// users leave:
//
//   - If one of the rooms refuses, or this node dies before the first script, nothing has happened.
//   - If this node dies between the two, the users are in both rooms. They stay in from; their
//     seats in to are free when the node's lease and Options.Grace are over.
//   - If from cannot be written, the seats in to are given back.
//   - If this node dies after both, the seats stay reserved until its lease and Options.Grace are
//     over. The users' sessions may join to from any node, as always.
//   - If the master of to fails over and loses the reservation, the users have no seat. With
//     Options.Replicas the second script waits until so many replicas have the first one.
//
// A hold that was lost is followed by another one, so a node that stalled does not fail. Once a
// room is being written, Move goes on although ctx ends; Close waits for it. A move is answered
// within Options.LockWait and two LockTTLs; on Cluster within four, and another LockWait if seats
// are given back.
//
// It fails with the errors of [Coordinator.Do], and with [room.ErrNotMember] if one of the users is
// not in the room from; then nothing has changed. After [room.ErrUnknown] the users are in either
// room, or in both on Cluster: call Leave for their sessions in to, as after success.
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
	m := move{Coordinator: c, from: from, to: to, session: session}
	if m.release, err = room.ReleaseTo(to, users...).Check(c.opts.Rules); err != nil {
		return left, joined, err
	}
	if m.reserve, err = room.Reserve(session, users...).Check(c.opts.Rules); err != nil {
		return left, joined, err
	}
	end, err := c.workers.begin()
	if err != nil {
		return left, joined, err
	}
	defer end()
	return m.run(ctx)
}

// move is one Move.
type move struct {
	*Coordinator
	from, to, session string
	release, reserve  room.Action

	undo bool // on Cluster: seats in to are reserved, or may be, and the users have not left from
}

// run holds the locks of both rooms, again if they are lost before anything is written.
func (m *move) run(ctx context.Context) (left, joined room.Result, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, m.opts.LockWait, errLockWait)
	defer cancel()
	defer context.AfterFunc(m.lifetime.life, cancel)()
	for {
		left, joined, err = m.hold(limited)
		if err == nil {
			return left, joined, nil
		}
		if m.undo {
			if failed := m.giveBack(); failed != nil {
				return left, joined, m.describe(room.ErrUnknown, fmt.Errorf("%w; the seats could not be given back: %v", err, failed))
			}
			m.undo = false
		}
		if !errors.Is(err, errLost) || limited.Err() != nil {
			return left, joined, m.failed(ctx, limited, err)
		}
		m.episodes.stale.Happened(nil, "room", m.from)
	}
}

var errLockWait = errors.New("the locks could not be had in time")

// hold moves the users under the locks of both rooms. It fails with errLost if that may be tried
// again.
func (m *move) hold(ctx context.Context) (left, joined room.Result, err error) {
	// A worker that deletes this node's records in the room to meanwhile would delete those
	// of this move.
	end, err := m.membership.registration.records.use(ctx, m.to)
	if err != nil {
		return left, joined, err
	}
	defer end()
	if err := m.membership.start(ctx); err != nil {
		return left, joined, err
	}
	who, err := m.membership.register(ctx, m.to, nil) // in from it gets no members
	if err != nil {
		return left, joined, err
	}
	locks, err := m.locks.AcquireAll(ctx, m.from, m.to)
	if errors.Is(err, lockmgr.ErrLost) { // the one, while the other was waited for
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	if err != nil {
		return left, joined, err
	}
	defer func() {
		release, cancel := context.WithTimeout(m.lifetime.life, m.opts.LockTTL)
		defer cancel()
		_ = locks.Release(release) // what is not given back expires
	}()
	if now, valid := m.membership.lease.holder(); !valid || now != who {
		return left, joined, errLost
	}
	for stale := 0; ; stale++ {
		left, joined, err = m.apply(ctx, who, locks)
		if !errors.Is(err, errStale) || stale == maxStale {
			return left, joined, err
		}
	}
}

// failed returns what the caller hears of an error after which nothing has changed, or of an
// ErrUnknown.
func (m *move) failed(ctx, limited context.Context, err error) error {
	var ruled *ruledOut
	switch {
	case errors.As(err, &ruled):
		return ruled.error
	case errors.Is(err, room.ErrUnknown):
		return err
	case errors.Is(err, room.ErrClosed), errors.Is(err, lockmgr.ErrClosed), m.lifetime.life.Err() != nil:
		return room.ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("gave up waiting for rooms %s and %s: %w", m.from, m.to, context.Cause(ctx))
	case errors.Is(err, lockmgr.ErrBusy), limited.Err() != nil && isEnd(err):
		return room.Refuse(room.ErrBusy, "room %s or %s is busy: their locks could not be had within %v", m.from, m.to, m.opts.LockWait)
	}
	return m.describe(room.ErrUnavailable, err)
}

// isEnd reports whether a hold failed with err because its context ended, or did not run again
// for that reason.
func isEnd(err error) bool {
	for _, end := range []error{errLockWait, context.DeadlineExceeded, context.Canceled, errLost} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}
