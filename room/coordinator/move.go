package coordinator

import (
	"context"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/work"
)

// Move moves users from one room to another: all of them, or none. They are never without a seat. In the room to,
// their seats are reserved under the session (see [room.Reserve]) until sessions of the users join; they leave the
// room from with [room.ReasonMoved] and take their private data along. Nothing else may use the session. After a
// while the caller has to release unused reservations, by a Leave of the session. left and joined are the results in
// from and to.
//
// Both rooms are locked meanwhile. On one Redis a script writes to both. On Redis Cluster, where the rooms may be on
// two masters, one script reserves the seats, and then another one has the users leave:
//
//   - If a room refuses, or this node dies before the first script, nothing has happened.
//   - If this node dies between the two, the users are in both rooms. They stay in from; their seats in to are free
//     when the node's lease and Options.Grace have expired.
//   - If from cannot be written, the seats in to are released, and the error is also [ErrUndone]: users who had a
//     seat there keep it.
//   - If this node dies after both, the seats stay reserved until its lease and Options.Grace have expired. The
//     users' sessions may join to from any node, as always.
//   - If the master of to fails over and loses the reservation, the users have no seat. With Options.Replicas the
//     second script waits until that many replicas have the first one.
//
// If a hold is lost Move acquires another, so a stalled node does not fail the move. Once a room is being written,
// Move goes on even if ctx ends; Close waits for it. It returns within Options.LockWait and two LockTTLs; on Cluster
// within LockWait and four LockTTLs, and one more LockWait if seats are released.
//
// It fails with the errors of [Coordinator.Do], such as [room.ErrNotMember] if a user is not in from; nothing has
// changed then. After [room.ErrUnknown] the users are in either room, or on Cluster in both: release the unused
// reservations as after success.
func (c *Coordinator) Move(ctx context.Context, from, to, session string, users ...string) (left, joined room.Result,
	err error) {
	start := time.Now()
	left, joined, err = c.workers.Move(ctx, from, to, session, users)
	if done := c.opts.Trace.Done; done != nil {
		done("move", err, time.Since(start))
	}
	return left, joined, err
}

// ErrUndone marks the error of a Move that undid its possible writes. Seats that were reserved before can be reserved
// for its session now: release them as after success.
var ErrUndone = work.ErrUndone
