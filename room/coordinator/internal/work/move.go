package work

import (
	"context"
	"errors"
	"fmt"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Move implements Coordinator.Move and, if begin is not nil, Coordinator.MoveParty.
func (p *Pool) Move(ctx context.Context, from, to, session string, begin *room.Settings, mover string, users []string) (
	left, joined room.Result, err error) {
	if err := room.CheckID(from); err != nil {
		return left, joined, err
	}
	if err := room.CheckID(to); err != nil {
		return left, joined, &room.InvalidError{Field: "to", Problem: err.(*room.InvalidError).Problem}
	}
	if from == to {
		return left, joined, &room.InvalidError{Field: "to", Problem: "is the room itself"}
	}
	leaving := room.Release{Target: to, Users: users, Mover: mover}
	if begin != nil {
		leaving.Labels = begin.Labels
	}
	release, err := room.Check(leaving, p.opts.Rules)
	if err != nil {
		return left, joined, err
	}
	reserve, err := room.Check(room.Reserve{Session: session, Users: users, Begin: begin}, p.opts.Rules)
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

// move is one call of Move.
type move struct {
	pool     *Pool
	from, to string
	release  room.Release
	reserve  room.Reserve

	undo   *room.Undo // on Cluster: undoes a reservation that was written, or may be, without the release
	undone bool       // undo was carried out
}

// ErrUndone is coordinator.ErrUndone.
var ErrUndone = errors.New("the move was undone")

// undoneError adds ErrUndone to an error.
type undoneError struct{ error }

func (e undoneError) Unwrap() error   { return e.error }
func (undoneError) Is(err error) bool { return err == ErrUndone }

// run carries out the move under both locks. It starts over if a lock is lost before anything is written.
func (m *move) run(ctx context.Context) (left, joined room.Result, err error) {
	limited, cancel := context.WithTimeout(ctx, m.pool.opts.LockWait)
	defer cancel()
	defer context.AfterFunc(m.pool.life, cancel)()
	for {
		left, joined, err = m.hold(limited)
		if err == nil {
			if m.pool.store.Cluster && joined.Settings.Grace != 0 {
				_ = m.then(room.Upkeep{Whole: m.reserve.Session}) // else the seats are kept for less long
			}
			return left, joined, nil
		}
		if m.undo != nil {
			if failed := m.then(room.Upkeep{Undo: m.undo}); failed != nil { // the users are still in room m.from
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

// hold carries out the move under the locks of both rooms. store.ErrLost means that it may be tried again.
func (m *move) hold(ctx context.Context) (left, joined room.Result, err error) {
	registration := m.pool.Node.Registration(m.to) // the room from gets no members
	defer registration.Close()
	if err := registration.Open(ctx); err != nil {
		return left, joined, err
	}
	locks, err := m.pool.locks.AcquireAll(ctx, m.from, m.to)
	if errors.Is(err, lockmgr.ErrLost) { // one lock expired during the wait for the other
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	if err != nil {
		return left, joined, err
	}
	defer func() {
		release, cancel := context.WithTimeout(m.pool.life, m.pool.opts.LockTTL)
		defer cancel()
		_ = locks.Release(release) // a lock that is not released expires
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

// failed turns err into the error that the caller of Move gets.
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
