package coordinator

import (
	"context"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/work"
)

// Move moves users from one room to another: all of them, or none. They are never without a seat. Their seats in the
// new room are reserved under the session (see [room.Reserve]) until sessions of the users join. They leave the old
// room with [room.ReasonMoved], and take their private data along. Nothing else may use the session. After a while the
// caller has to release unused reservations, by a Leave of the session. left is the result in the old room, joined
// that in the new one.
//
// Both rooms are locked meanwhile. On one Redis a script writes to both. On Redis Cluster, where the rooms may be on
// two masters, one script reserves the seats, and then another one has the users leave:
//
//   - If a room refuses, or this node dies before the first script, nothing has happened.
//   - If this node dies between the two, the users are in both rooms. They stay in the old room; their seats in the
//     new one are free when the node's lease and Options.Grace have expired.
//   - If the old room cannot be written, the seats in the new one are released, and the error is also [ErrUndone].
//     Users who had a seat there before keep it.
//   - If this node dies after both, the seats stay reserved until its lease and Options.Grace have expired. The
//     users' sessions may join the new room from any node, as always.
//   - If the new room's master fails over and loses the reservation, the users have no seat. With Options.Replicas
//     the second script waits until that many replicas have the first one.
//
// If a hold is lost Move acquires another, so a stalled node does not fail the move. Once a room is being written,
// Move goes on even if ctx ends; Close waits for it. It returns within Options.LockWait and two LockTTLs; on Cluster
// within LockWait and four LockTTLs, and one more LockWait if seats are released.
//
// It fails with the errors of [Coordinator.Do], such as [room.ErrNotMember] if a user is not in the old room. After
// [room.ErrUnknown] the users are in either room, or on Cluster in both: release the unused reservations as after
// success. After any other error nothing has changed.
func (c *Coordinator) Move(ctx context.Context, from, to, session string, users ...string) (left, joined room.Result,
	err error) {
	return c.move(ctx, from, to, session, nil, "", users)
}

// MoveParty is [Coordinator.Move] for mover, and for members who have agreed to be moved to a table with the labels of
// begin (see [room.Agree]), into a room that [Coordinator.Match] has found. begin is the argument of Match's join. In
// addition it fails with [room.ErrNotMember] if a user has not agreed, and with [room.ErrForbidden] if a user may not
// enter that room, or it is the party's own.
func (c *Coordinator) MoveParty(ctx context.Context, from, to, session string, begin room.Settings, mover string,
	users ...string) (left, joined room.Result, err error) {
	if from == to {
		return left, joined, room.Forbid("the party is in room %s", to)
	}
	return c.move(ctx, from, to, session, &begin, mover, users)
}

func (c *Coordinator) move(ctx context.Context, from, to, session string, begin *room.Settings, mover string,
	users []string) (left, joined room.Result, err error) {
	start := time.Now()
	left, joined, err = c.workers.Move(ctx, from, to, session, begin, mover, users)
	if done := c.opts.Trace.Done; done != nil {
		done("move", err, time.Since(start))
	}
	return left, joined, err
}

// ErrUndone marks the error of a Move that undid its possible writes. Seats that were reserved before can be reserved
// for its session now: release them as after success.
var ErrUndone = work.ErrUndone
