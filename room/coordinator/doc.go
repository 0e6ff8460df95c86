// Package coordinator runs actions on rooms when many nodes act on the same rooms in one
// Redis. The rules are those of package room.
//
// Start with [New]. [Coordinator.Do] runs a [room.Join] or a [room.Leave],
// [Coordinator.Read] returns who is in a room, and [Coordinator.Watch] reports what
// changes:
//
//	rooms, err := coordinator.New(client, coordinator.Options{Rules: room.Rules{Seating: room.Capacity(4)}})
//	...
//	result, err := rooms.Do(ctx, "42", room.Join{User: "张三", Session: session})
//
// # How an action is run
//
// It waits in its room's queue on this node. A worker serves the queue (internal/work), in the first caller's
// goroutine and then in one of its own, hold after hold of the room's lock (LockRoom:<id>, by the rules of package
// lockmgr). One hold serves all that waits, up to Options.MaxBatch and at most one action of each user, in the order
// of arrival.
//
// The rules apply the actions to the node's copy of the room. The commit checks in one script that the lock is free
// and nobody waits for it, or has the writer's token, and that the room is as the node knows it (by the id of the
// last commit); then it writes what has changed, counts the version, publishes the event, and gives the lock back if
// the writer had it. So an action in a quiet room is one request, and its hold has no length; and all others who use
// the lock are respected. If another has the lock or waits for it, the writer's token waits, too, and a wake-up lets
// the node commit. If the copy is old, the writer applies the actions to the room as it is, which it reads or builds
// from events, and commits again, a few times without the lock and then under it. A node without a copy asks for the
// lock and the room. An action that changes nothing needs only the answer that the copy is not old. What a hold costs
// does not grow with the room.
//
// While several nodes fight over a room, the lock is handed from
// node to node, and each node's copy follows the events of the others. The commit also puts
// the node's next token into the queue if more waits, or if by experience something will.
//
// Room:<id>:Users is a hash, user to member as JSON, so a commit writes only who has changed. Room:<id>:Meta counts
// the members: a node that finds another number of them begins a new epoch with what is known of the room, or with
// those who are there. It also has the room's settings, data, bans and who was taken out of it (gone), each as JSON,
// where there are some. If one of the two keys is of another type, or a field is none that roomd writes, every action
// fails with [room.ErrForeign], which names it. Options.Journal adds each commit to a stream, too; where Redis does
// not take the entry the commit counts all the same.
//
// # Moves
//
// [Coordinator.Move] takes users from one room to another under the locks of both. It does not wait in
// their queues: it reads the rooms, applies the rules, and writes with one script, or on
// Redis Cluster with one for each room. The field moved of Meta keeps the id of the last move,
// so that one whose reply was lost is recognised. A worker then finds its copy of the room old.
//
// # Timers
//
// A room has its timers in the field timers of Meta. When one is due any node may run [room.Fire] on the room, which
// has what is due fire, once. The node that has set it does; package timers inside looks after those of nodes that
// have died, by an index (Timers:due) that is written before the commit which sets a timer. [Coordinator.Now] is the
// clock by which they are due.
//
// # Inside
//
// internal/work runs actions, internal/store knows what Redis holds, internal/feed has the events of rooms in order,
// and internal/cluster is the node's part among the others. internal/timers has timers fire. internal/lobby,
// internal/nodes and internal/checks are for operators.
//
// A node has a lease, a key with a TTL that it prolongs. Before it writes to a room it
// records that it may have members there. The other nodes watch its lease by their own
// clocks: steps of Redis' clock cost nobody a seat. When a lease is over they show the node's members
// as away, unless the node has stopped; when it is over for the node's Options.Grace they remove the members
// from the recorded rooms. Each node compares its records with the rooms, ten of them a second, so that a
// quiet room of which Redis has lost something is put right, too.
//
// A node whose lease was lost takes a new name, and its sessions take that on
// ([room.Keep]): because it was stalled, or because Redis has lost data or was restarted
// from an old copy. Members under the old name whose sessions do not come back are removed.
// If the copy is younger than the lease, [Coordinator.AnswerFor] says who has left since.
//
// On Redis Cluster a room's keys share a slot, and so do a node's. If the master of a node's keys is away
// until the lease is over, or has fewer replicas than Options.Replicas, the node moves to another master.
// Actions in rooms of the other masters go on meanwhile.
//
// # What it promises
//
//   - A join that succeeded is in the list, on a seat of its own, until a leave by
//     the user's active session.
//   - A holder that was stalled past the lock's TTL changes nothing: its commit is
//     refused, and its actions run again under a new hold.
//   - A commit happens once, however often it is sent: Redis remembers each node's last request to
//     commit. A commit's id, called mark there, is a hash of what it says and of the id before it.
//   - Versions count a room's commits from 1 without gaps, within an epoch. A version of an
//     epoch has one content: when Redis was restarted or another server has taken its place
//     (after a failover, or because a Cluster's slot has moved), nobody can tell whether
//     commits were lost, and each room begins a new epoch before anybody is answered. So it
//     does where a node finds other commits than it knows.
//   - A watcher gets every commit in order. If some were missed, a snapshot replaces
//     them.
//   - The members of a node that has died are away after Options.NodeTTL, or half of that later,
//     and are removed after Options.Grace. Each happens exactly once. A node that was only stalled
//     writes nothing under its old name.
//   - With Options.Replicas a commit is acknowledged when so many replicas have it. An
//     action that is refused, a Read and an event promise nothing, and wait for no replica.
//   - Every action is answered within Options.LockWait and a LockTTL, if the Seating
//     answers at once.
//   - Without memory Redis takes no joins, but leaves; locks are released, and leases
//     prolonged.
//   - Nothing in Redis grows with the number of rooms or nodes that ever were.
//   - An error other than [room.ErrUnknown] means that nothing was written.
//
// # What it does not promise
//
//   - Redis replicates asynchronously: a failover may lose commits that were
//     acknowledged, and Redis that comes back empty has lost all of them. What a node on which the
//     room is watched knows of it comes back, but for timers and kept messages ([room.Memory]).
//   - Redis has to keep what it has: its maxmemory-policy must be noeviction, and its
//     ACL must allow all that [Coordinator.Check] tries.
//   - Actions in rooms of a master that is away fail. Redis Cluster stops as a whole when
//     no replica takes over, unless cluster-require-full-coverage is no. The members of a
//     node that has died stay as long as its master is away, and for good if that comes back
//     without its data.
//   - A node that was cut off for longer than two thirds of Options.NodeTTL and
//     Options.Grace, and missed the events of that time, cannot tell a member who was
//     removed from one who was replaced and then left. It takes both for removed, so a
//     leave through another node may be undone.
//   - Fairness between nodes is that of lockmgr. What changes nothing does not wait for its turn.
//
// # Goroutines
//
// An action whose room is idle is run by the goroutine of its caller. One runs for each room in which further actions
// wait, or Redis does not answer soon, and for a moment for each whose worker has ended. From [Coordinator.Start], or
// the first action, on there are four more: for the node's lease, its records, the other nodes, and timers that those
// have not had fire; with Options.Report two more, which write reports and check rooms. Their requests may run on
// goroutines of their own. From the first watch, or the first lock that was waited for, on there are four for events
// and wake-ups. [Coordinator.Close] returns when all of them have ended. go-redis has some for requests that share
// round trips, until the client is closed. From the first list of rooms on, or from the first action on with
// Options.Report, one sees to it that the index has all rooms.
package coordinator
