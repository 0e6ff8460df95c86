package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Move takes users from one room to another: all of them, or none. They are never without a seat.
// In the room to, their seats are reserved under the session (see [room.Reserve]) until sessions of
// the users join, and they leave the room from with [room.ReasonMoved]. They take their private data
// along. The session has to be one that nothing else uses. Whoever calls Move has to give up what is reserved after a while, with a
// Leave of the session.
//
// Both rooms are locked meanwhile. On one Redis a script writes to both. On Redis Cluster, where
// the rooms may be on two masters, one script reserves the seats, and then another one has the
// users leave:
//
//   - If one of the rooms refuses, or this node dies before the first script, nothing has happened.
//   - If this node dies between the two, the users are in both rooms. They stay in from; their
//     seats in to are free when the node's lease and Options.Grace are over.
//   - If from cannot be written, the seats in to are released, and the error is [ErrUndone], too: who had a seat there keeps it.
//   - If this node dies after both, the seats stay reserved until its lease and Options.Grace are
//     over. The users' sessions may join to from any node, as always.
//   - If the master of to fails over and loses the reservation, the users have no seat. With
//     Options.Replicas the second script waits until so many replicas have the first one.
//
// A hold that was lost is followed by another one, so a node that stalled does not fail. Once a
// room is being written, Move goes on although ctx ends; Close waits for it. A move is answered
// within Options.LockWait and two LockTTLs; on Cluster within four, and another LockWait if seats
// are released.
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
	release, err := room.Check(room.Release{Target: to, Users: users}, c.opts.Rules)
	if err != nil {
		return left, joined, err
	}
	reserve, err := room.Check(room.Reserve{Session: session, Users: users}, c.opts.Rules)
	if err != nil {
		return left, joined, err
	}
	m := move{ws: c.workers, from: from, to: to, release: release.(room.Release), reserve: reserve.(room.Reserve)}
	end, err := c.workers.begin()
	if err != nil {
		return left, joined, err
	}
	defer end()
	return m.run(ctx)
}

// move is one Move.
type move struct {
	ws       *workers
	from, to string
	release  room.Release
	reserve  room.Reserve

	undo   *room.Undo // on Cluster: of what is written, or may be, in to and not in from
	undone bool       // it was
}

// ErrUndone is what an error of a Move is, too, if something was written before it failed, or may have been, and
// taken back. Seats may be reserved under its session then.
var ErrUndone = errors.New("the move was undone")

// undoneError is an error that is ErrUndone, too.
type undoneError struct{ error }

func (e undoneError) Unwrap() error   { return e.error }
func (undoneError) Is(err error) bool { return err == ErrUndone }

// run holds the locks of both rooms, again if they are lost before anything is written.
func (m *move) run(ctx context.Context) (left, joined room.Result, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, m.ws.opts.LockWait, errLockWait)
	defer cancel()
	defer context.AfterFunc(m.ws.life.life, cancel)()
	for {
		left, joined, err = m.hold(limited)
		if err == nil {
			return left, joined, nil
		}
		if m.undo != nil {
			if failed := m.takeBack(); failed != nil {
				return left, joined, m.describe(room.ErrUnknown, fmt.Errorf("%w; the seats could not be given back: %v", err, failed))
			}
			m.undo = nil
			m.undone = true
		}
		if !errors.Is(err, store.ErrLost) || limited.Err() != nil {
			if err = m.failed(ctx, limited, err); m.undone {
				err = undoneError{err}
			}
			return left, joined, err
		}
		m.ws.logs.stale.Happened(nil, "room", m.from)
	}
}

var errLockWait = errors.New("the locks could not be had in time")

// hold moves the users under the locks of both rooms. It fails with store.ErrLost if that may be tried
// again.
func (m *move) hold(ctx context.Context) (left, joined room.Result, err error) {
	registration := m.ws.node.Registration(m.to) // in from it gets no members
	defer registration.Close()
	if err := registration.Open(ctx); err != nil {
		return left, joined, err
	}
	locks, err := m.ws.locks.AcquireAll(ctx, m.from, m.to)
	if errors.Is(err, lockmgr.ErrLost) { // the one, while the other was waited for
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	if err != nil {
		return left, joined, err
	}
	defer func() {
		release, cancel := context.WithTimeout(m.ws.life.life, m.ws.opts.LockTTL)
		defer cancel()
		_ = locks.Release(release) // what is not released expires
	}()
	if !registration.Valid() {
		return left, joined, store.ErrLost
	}
	for stale := 0; ; stale++ {
		left, joined, err = m.apply(ctx, registration.Node(), locks)
		if !errors.Is(err, store.ErrStale) || stale == maxStale {
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
	case errors.Is(err, room.ErrClosed), errors.Is(err, lockmgr.ErrClosed), m.ws.life.life.Err() != nil:
		return room.ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("gave up waiting for rooms %s and %s: %w", m.from, m.to, context.Cause(ctx))
	case errors.Is(err, lockmgr.ErrBusy), limited.Err() != nil && isEnd(err):
		m.ws.checkTTL(m.from)
		m.ws.checkTTL(m.to)
		return room.Refuse(room.ErrBusy, "room %s or %s is busy: their locks could not be had within %v", m.from, m.to, m.ws.opts.LockWait)
	}
	return m.describe(room.ErrUnavailable, err)
}

// isEnd reports whether a hold failed with err because its context ended, or did not run again
// for that reason.
func isEnd(err error) bool {
	for _, end := range []error{errLockWait, context.DeadlineExceeded, context.Canceled, store.ErrLost} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}
