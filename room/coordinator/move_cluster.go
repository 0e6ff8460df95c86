package coordinator

import (
	"context"
	"errors"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/room"
)

// byReservation reserves the seats in the one room, and then has the users leave the other.
func (m *move) byReservation(ctx context.Context, session string) (left, joined room.Result, err error) {
	// Who is not there need not be announced to the other room.
	before, err := m.Read(ctx, m.from)
	if err != nil {
		return left, joined, err
	}
	left.Snapshot = before
	if err := m.release.CheckMembers(m.from, before); err != nil {
		return left, joined, err
	}
	joined, err = m.Do(ctx, m.to, m.reserve)
	if err != nil {
		if errors.Is(err, room.ErrUnknown) {
			m.giveBack(ctx, session)
		}
		return left, joined, err
	}
	// What is reserved is not to be over before the users have left.
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.reserved())
	defer cancel()
	left, err = m.Do(leaving, m.from, m.release)
	if errors.Is(err, room.ErrUnknown) {
		left, err = m.settle(ctx, before, err)
	}
	if err != nil && !errors.Is(err, room.ErrUnknown) {
		m.giveBack(ctx, session)
	}
	return left, joined, err
}

// reserved returns for how long seats are surely kept that this node has just reserved.
func (m *move) reserved() time.Duration {
	if m.opts.Grace <= 0 {
		return m.opts.LockWait
	}
	return min(m.opts.LockWait, m.opts.Grace/2)
}

// settle finds out whether the users have left, when no answer came, as soon as no copy of the
// request can be carried out any more.
func (m *move) settle(ctx context.Context, before room.Snapshot, unknown error) (left room.Result, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*m.opts.LockTTL)
	defer cancel()
	written := time.Now().Add(m.opts.LockTTL)
	for redisconn.Pause(ctx, max(m.opts.LockPoll, 50*time.Millisecond)) == nil {
		now, err := m.Read(ctx, m.from)
		switch {
		case err != nil, now.Epoch != before.Epoch:
		case m.release.CheckMembers(m.from, now) != nil: // they have left
			left.Snapshot = now
			return left, nil
		case time.Now().After(written):
			left.Snapshot = now
			return left, room.Refuse(room.ErrUnavailable, "the users could not leave room %s", m.from)
		}
	}
	return left, unknown
}

// giveBack frees the seats that are reserved. What fails is left to whoever has asked for the move,
// and to the end of this node's lease.
func (m *move) giveBack(ctx context.Context, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.LockWait)
	defer cancel()
	for _, user := range m.reserve.Users() {
		_, _ = m.Do(ctx, m.to, room.Leave(user, session))
	}
}
