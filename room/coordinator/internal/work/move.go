package work

import (
	"context"
	"errors"
	"fmt"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Move is Coordinator.Move.
func (p *Pool) Move(ctx context.Context, from, to, session string, users []string) (left, joined room.Result,
	err error) {
	if err := room.CheckID(from); err != nil {
		return left, joined, err
	}
	if err := room.CheckID(to); err != nil {
		return left, joined, &room.InvalidError{Field: "to", Problem: err.(*room.InvalidError).Problem}
	}
	if from == to {
		return left, joined, &room.InvalidError{Field: "to", Problem: "is the room itself"}
	}
	release, err := room.Check(room.Release{Target: to, Users: users}, p.opts.Rules)
	if err != nil {
		return left, joined, err
	}
	reserve, err := room.Check(room.Reserve{Session: session, Users: users}, p.opts.Rules)
	if err != nil {
		return left, joined, err
	}
	m := move{pool: p, from: from, to: to, release: release.(room.Release), reserve: reserve.(room.Reserve)}
	end, err := p.begin()
	if err != nil {
		return left, joined, err
	}
	defer end()
	return m.run(ctx)
}

// move is one Move.
type move struct {
	pool     *Pool
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
	limited, cancel := context.WithTimeout(ctx, m.pool.opts.LockWait)
	defer cancel()
	defer context.AfterFunc(m.pool.life, cancel)()
	for {
		left, joined, err = m.hold(limited)
		if err == nil {
			return left, joined, nil
		}
		if m.undo != nil {
			if failed := m.takeBack(); failed != nil {
				return left, joined, m.describe(room.ErrUnknown,
					fmt.Errorf("%w; the seats could not be given back: %v", err, failed))
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
		m.pool.logs.stale.Happened(nil, "room", m.from)
	}
}

// hold moves the users under the locks of both rooms. It fails with store.ErrLost if that may be tried
// again.
func (m *move) hold(ctx context.Context) (left, joined room.Result, err error) {
	registration := m.pool.Node.Registration(m.to) // in from it gets no members
	defer registration.Close()
	if err := registration.Open(ctx); err != nil {
		return left, joined, err
	}
	locks, err := m.pool.locks.AcquireAll(ctx, m.from, m.to)
	if errors.Is(err, lockmgr.ErrLost) { // the one, while the other was waited for
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	if err != nil {
		return left, joined, err
	}
	defer func() {
		release, cancel := context.WithTimeout(m.pool.life, m.pool.opts.LockTTL)
		defer cancel()
		_ = locks.Release(release) // what is not released expires
	}()
	if !registration.Valid() {
		return left, joined, store.ErrLost
	}
	for stale := 0; ; stale++ {
		left, joined, err = m.apply(ctx, registration.Node(), locks)
		if !errors.Is(err, store.ErrStale) || stale == MaxStale {
			return left, joined, err
		}
	}
}

// failed returns the error of a move after which nothing has changed, or of an ErrUnknown.
func (m *move) failed(ctx, limited context.Context, err error) error {
	var ruled *ruledOut
	switch {
	case errors.As(err, &ruled):
		return ruled.error
	case errors.Is(err, room.ErrUnknown):
		return err
	case errors.Is(err, room.ErrClosed), errors.Is(err, lockmgr.ErrClosed):
		return room.ErrClosed
	case ctx.Err() != nil && m.pool.life.Err() == nil:
		return fmt.Errorf("gave up waiting for rooms %s and %s: %w", m.from, m.to, context.Cause(ctx))
	case errors.Is(err, lockmgr.ErrBusy), limited.Err() != nil && !errors.Is(err, store.ErrRefused):
		return m.pool.late(m.from, m.to)
	}
	return m.describe(room.ErrUnavailable, err)
}
