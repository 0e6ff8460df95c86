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
// goroutine works there, hold after hold. One hold serves all that waits, up to
// Options.MaxBatch, in the order of arrival and at most one action of each user.
//
// A hold is two requests: one takes the room's lock (LockRoom:<id>, by the rules of
// package lockmgr), and the commit checks that the lock still holds the writer's
// token and that the room is as the node knows it (by a mark of the last commit),
// writes what has changed, counts the version, publishes the event and gives the
// lock back, all in one script. In between the actions are applied by the rules (type
// [Room], which is pure) to the node's copy of the room. A node that has no copy
// gets the room with the lock; one whose copy turns out to be old gets it with the
// refusal.
//
// Room:<id>:Users is a hash, user to member as JSON, and not the list in a string that
// the articles have: so a commit writes only who has changed. Room:<id>:Meta counts
// the members. Who finds another number of them begins a new epoch with those who are
// there: Redis has evicted a key, or somebody has changed one by hand. Where one of the
// two keys holds something that roomd has not written, every action fails with
// [ErrUnavailable] and an error that names it.
//
// While several nodes fight over a room, a hold is one request: the lock is handed
// from node to node, the wake-up and the events come on one connection in the order
// of commits, and so a node that is woken has an up-to-date copy and commits at
// once. The commit also puts the node's next token into the line, if more waits, or if
// by experience something will have come before its turn. A single busy node passes
// the lock to itself.
//
// Options.ElideLock saves the first of the two requests where nobody else is. It
// pays for lone actions; rooms in which several players act at the same moment are
// faster without, because their actions gather while the lock is taken.
//
// What a hold costs does not grow with the room: the commit sends what differs, and
// a snapshot shares all but the seats that changed with the one before (copy on
// write). Copies of quiet rooms go after a minute, or earlier if there are many
// (Options.MaxCopies). Requests of different rooms share round trips: with many rooms
// in use that is a multiple of the throughput; where a handful of requests meet, each
// takes some tens of microseconds longer; one that is alone goes out by itself, as
// fast as through a plain client.
//
// # On Redis Cluster
//
// A room's keys share a slot. A node has a home, one of sixteen hash tags that are
// spread over the slots. Its name begins with it, and so its lease (Node:<node>), the
// set of its rooms (Node:<node>:Rooms) and the list of the nodes there (Nodes:{<home>})
// are on one master. If that one is away until the lease is over, or has fewer replicas
// than Options.Replicas, the node takes a new name at a home on another master, and
// watchers are told to take it on. Actions in rooms of the other masters go on
// meanwhile; in a room that the node has not used of late, the first one may wait for
// the new name.
//
// What a failover loses of the set of rooms comes back when the lease is prolonged.
//
// # Leases
//
// The others see by their own clocks whether a node prolongs its lease, for as long as
// its own NodeTTL says, and its members keep their seats for its own Grace from then on:
// steps of Redis' clock cost nobody a seat, nor do settings that differ. (A node that has
// never seen the other's lease goes by its own Grace.) A node that finds an earlier
// lease of its own in Redis, which was restarted from an old copy of its data, takes a
// new name, as if the lease were lost: then members that only the copy knows leave. If the
// copy is younger than that, they leave for whom no session answers
// ([Coordinator.AnswerFor]).
//
// Each node compares what it has noted of itself in Redis with the rooms, ten of them a
// second, for as long as it lives. So what is true no more goes, also if others made it
// so or Redis was away, and a quiet room of which Redis has lost something is put right.
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
//   - A node that has died is noticed by the others when its lease is over
//     (Options.NodeTTL); after Options.Grace its members leave, as ordinary
//     versions, once. A node that was only stalled writes nothing under its old
//     name: it takes a new one, and watchers are told to take it on ([Keep]).
//   - What a session has missed, it can tell from the next event or snapshot
//     ([Standing]): whether it still speaks for its user, was replaced by a newer
//     session, or has lost its place without that.
//   - Where Rules say that the older session stays, it does as long as its node is
//     believed to be alive.
//   - When a failover takes a room back to an earlier version, a new epoch begins.
//   - With Options.Replicas a commit is acknowledged when so many replicas have it. An
//     action that finds done what it asks for is, too: if the replicas are not known to
//     have the room as it is, that becomes a version of its own. An action that is
//     refused, a Read and an event promise nothing, and wait for no replica.
//   - Every action is answered within Options.LockWait and a LockTTL.
//   - Without memory Redis takes no joins, but leaves; locks are given back, and leases
//     prolonged.
//   - Nothing in Redis grows with the number of rooms or nodes that ever were.
//   - An error other than [ErrUnknown] means that nothing was written.
//
// # What it does not promise
//
//   - Actions in rooms of a master that is away fail. Unless Redis Cluster is told not
//     to (cluster-require-full-coverage no), it stops as a whole when no replica takes
//     over. The members of a node that has died stay as long as its home is away, and
//     for good if that comes back without its data.
//   - Redis replicates asynchronously: a failover may lose commits that were
//     acknowledged, and Redis that comes back empty has lost all of them. Watchers
//     notice (a new epoch, or a version that went back).
//   - Redis has to keep what it has: its maxmemory-policy must be noeviction, and its
//     ACL must allow all that [Coordinator.Check] tries.
//   - A node that was cut off for longer than two thirds of Options.NodeTTL and
//     Options.Grace, and missed the events of that time, cannot tell a member who was removed from one who
//     was replaced and then left. It takes both for removed, so a leave through another
//     node may be undone.
//   - Fairness between nodes is that of lockmgr, with one exception: where a lock
//     expires under a dead holder, a node that has met nobody in the room of late
//     may pass those who wait, once.
//
// # Goroutines
//
// One for each room in which actions wait. From [Coordinator.Start], or the first
// action, on three more: one keeps the node's lease, one looks for dead nodes, one
// compares what is noted with the rooms. They have others for as long as their requests
// take. From the first watch, or the first lock
// that was waited for, on four for events and wake-ups; and go-redis has some for
// requests that share round trips, until the client is closed. [Coordinator.Close]
// returns when the coordinator's own have ended.
package room
