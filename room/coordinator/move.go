package coordinator

import (
	"context"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/work"
)

// Move takes users from one room to another: all of them, or none. They are never without a seat. In the room to,
// their seats are reserved under the session (see [room.Reserve]) until sessions of the users join, and they leave
// the room from with [room.ReasonMoved]. They take their private data along. The session has to be one that nothing
// else uses. The caller has to give up what is reserved after a while, with a Leave of the session.
//
// Both rooms are locked meanwhile. On one Redis a script writes to both. On Redis Cluster, where
// the rooms may be on two masters, one script reserves the seats, and then another one has the
// users leave:
//
//   - If one of the rooms refuses, or this node dies before the first script, nothing has happened.
//   - If this node dies between the two, the users are in both rooms. They stay in from; their
//     seats in to are free when the node's lease and Options.Grace are over.
//   - If from cannot be written, the seats in to are released, and the error is [ErrUndone], too: users who had a seat
//     there keep it.
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
func (c *Coordinator) Move(ctx context.Context, from, to, session string, users ...string) (left, joined room.Result,
	err error) {
	start := time.Now()
	left, joined, err = c.workers.Move(ctx, from, to, session, users)
	if done := c.opts.Trace.Done; done != nil {
		done("move", err, time.Since(start))
	}
	return left, joined, err
}

// ErrUndone is what an error of a Move is, too, if something was written before it failed, or may have been, and
// taken back. Seats may be reserved under its session then.
var ErrUndone = work.ErrUndone
