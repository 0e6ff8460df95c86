// Package room coordinates who is in which room when many nodes act on the same
// rooms in one Redis.
//
// Start with [New]. [Coordinator.Do] runs a [Join] or a [Leave], [Coordinator.Read]
// tells who is in a room, and [Coordinator.Watch] tells what changes:
//
//	rooms, err := room.New(client, room.Options{Rules: room.Rules{Capacity: 4}})
//	...
//	result, err := rooms.Do(ctx, "42", room.Join("张三", session))
//
// # How an action is run
//
// It waits in its room's queue on this node. As long as a queue is not empty, one
// goroutine serves it: it takes the room's lock (LockRoom:<id>, package lockmgr),
// reads the room, applies what waits by the rules (type [Room], which is pure),
// and commits. The commit is one script that checks that the lock still holds the
// writer's token, writes, counts the version, publishes the event and gives the
// lock back. One hold serves all that waits, up to Options.MaxBatch, in the order
// of arrival and at most one action of each user.
//
// # What it promises
//
//   - A join that succeeded is in the list, on a seat of its own, until a leave by
//     the session that speaks for the user. A room never has more members than its
//     capacity.
//   - A holder that was stalled past the lock's TTL changes nothing: its commit is
//     refused, and its actions run again under a new hold.
//   - A commit happens once, however often it is sent. If the reply stays away it
//     is sent again, and Redis remembers the node's last committed token.
//   - Versions count a room's commits from 1 without gaps, within an epoch.
//   - A watcher is told every commit in order. If some were missed, a snapshot
//     stands for them.
//   - An error other than [ErrUnknown] means that nothing was written.
//
// # What it does not promise
//
//   - Redis replicates asynchronously: a failover may lose commits that were
//     acknowledged, and Redis that comes back empty has lost all of them. Watchers
//     notice (a new epoch, or a version that went back).
//   - A member whose node died stays in the list.
//   - Redis Cluster: the keys of a room do not share a slot yet.
//
// # Goroutines
//
// One for each room in which actions wait, and from the first Watch on four for
// all events of the node; lockmgr has three more once a lock had to be waited for.
// [Coordinator.Close] returns when they have ended.
package room
