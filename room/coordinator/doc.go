// Package coordinator runs actions on rooms that many nodes share in one Redis. Package room has the rules.
//
// Start with [New]. [Coordinator.Do] runs a [room.Join] or a [room.Leave], [Coordinator.Read] returns who is in a
// room, and [Coordinator.Watch] reports changes:
//
//	rooms, err := coordinator.New(client, coordinator.Options{Rules: room.Rules{Seating: room.Capacity(4)}})
//	...
//	result, err := rooms.Do(ctx, "42", room.Join{User: "张三", Session: session})
//
// # How an action is run
//
// An action waits in its room's queue on this node. A worker (internal/work) serves the queue, first in the caller's
// goroutine and then in its own, hold after hold of the room's lock (LockRoom:<id>, by the rules of package lockmgr).
// One hold serves all waiting actions in order of arrival, up to Options.MaxBatch and at most one of each user.
//
// The rules apply the actions to the node's copy of the room. The commit is one script. It checks that the lock is
// free and nobody waits for it, or that the writer's token has it; and that the room is as the node knows it, by the
// id of the last commit. Then it writes the changes, counts the version, publishes the event, and releases the lock
// if the writer had it. So an action in a quiet room is one request, and still respects all others who use the lock.
//
// If another holds the lock or waits for it, the writer's token waits, too, and a wake-up lets the node commit. If
// the copy is old, the writer reads the room or builds it from events, applies the actions again and commits: a few
// times without the lock, then under it. A node without a copy asks for the lock and the room. An action that changes
// nothing only needs the answer that the copy is not old. The cost of a hold does not grow with the room.
//
// While several nodes compete for a room, they hand the lock from one to the next, and each node's copy follows the
// events of the others. The commit also queues the node's next token if more actions wait or probably soon will.
//
// Room:<id>:Users is a hash, user to member as JSON, so a commit writes only the members it changes. Room:<id>:Meta
// counts the members: a node that finds another number begins a new epoch with what is known of the room, or with the
// members that are there. Meta also has the room's settings, data, bans and the users taken out (gone), each as JSON,
// where set. If one of the two keys has another type, or a field that roomd does not write, every action fails with
// [room.ErrForeign], which names the key. Options.Journal adds each commit to a stream; a failure there is logged.
//
// # Moves
//
// [Coordinator.Move] moves users from one room to another under the locks of both. It does not wait in their queues:
// it reads the rooms, applies the rules, and writes with one script, on Redis Cluster with one per room. The field
// moved of Meta keeps the id of the last move, which identifies a move whose reply was lost. Workers then find their
// copies old.
//
// # Timers
//
// A room keeps its timers in the field timers of Meta. When one is due any node may run [room.Upkeep] on the room,
// which fires each due timer once. Normally the node that set the timer does; internal/timers cares for the timers of
// dead nodes with an index (Timers:due), which is written before the commit that sets a timer. Timers are due by the
// clock of [Coordinator.Now].
//
// # Inside
//
// internal/work runs actions, internal/store knows what Redis holds, internal/feed orders the events of rooms,
// internal/cluster is the node's part among the others, internal/timers fires timers, and internal/relay keeps the
// feed of all rooms. internal/lobby, internal/nodes and internal/checks are for operators.
//
// A node prolongs its lease, a key with a TTL. Before it writes to a room it records that it may have members there.
// The other nodes watch its lease by their own clocks: steps of Redis' clock cost nobody a seat. When a lease has
// expired they show the node's members as away, unless the node has stopped; after the node's Options.Grace they remove
// the members from the recorded rooms. Each node compares its records with the rooms, ten a second, so that a quiet
// room is repaired, too, if Redis has lost a part of it.
//
// A node may lose its lease because it stalled, or because Redis lost data or was restarted from an old copy. It then
// takes a new name, and its sessions adopt it ([room.Keep]). Members under the old name whose sessions do not come back
// are removed. If the copy is younger than the lease, [Coordinator.AnswerFor] finds members who left since.
//
// On Redis Cluster a room's keys share a slot, and so do a node's. If the master of a node's keys is away until the
// lease has expired, or has fewer replicas than Options.Replicas, the node moves to another master. Meanwhile actions
// in rooms of the other masters go on.
//
// # What it promises
//
//   - A join that succeeded is in the list, on a seat of its own, until a leave by the user's active session.
//   - A holder that stalled past the lock's TTL changes nothing: its commit is refused, and its actions run again
//     under a new hold.
//   - A commit happens once, however often it is sent: Redis remembers each node's last request to commit. A commit's
//     id, called mark there, is a hash of its content and of the id before it.
//   - Within an epoch versions count a room's commits without gaps, and a version of an epoch has one content. When
//     Redis was restarted or another server has taken its place (after a failover, or because a Cluster's slot has
//     moved), commits may have been lost, so each room begins a new epoch before anybody is answered. A node
//     that finds other commits than it knows begins one, too.
//   - A watcher gets every commit in order. A snapshot replaces commits that were missed.
//   - The members of a dead node are away after one to one and a half Options.NodeTTL, and are removed after
//     Options.Grace. Each happens exactly once. A node that was only stalled writes nothing under its old name.
//   - With Options.Replicas a commit is acknowledged when that many replicas have it. A refused action, a Read and an
//     event promise nothing, and wait for no replica.
//   - Every action is answered within Options.LockWait and a LockTTL, if the Seating answers at once.
//   - Without free memory Redis refuses joins, but takes leaves, releases of locks and prolonged leases.
//   - Nothing in Redis grows with the number of rooms or nodes that ever were.
//   - An error other than [room.ErrUnknown] means that nothing was written.
//
// # What it does not promise
//
//   - Redis replicates asynchronously: a failover may lose acknowledged commits, and a Redis that comes back empty
//     has lost all. A node that watches the room restores what it knows, except timers and kept messages
//     ([room.Memory]).
//   - Redis has to keep its data: its maxmemory-policy must be noeviction, and its ACL must allow all that
//     [Coordinator.Check] tries.
//   - Actions in rooms of a master that is away fail. Redis Cluster stops as a whole when no replica takes over,
//     unless cluster-require-full-coverage is no. The members of a dead node stay as long as its master is away, and
//     for good if the master comes back without its data.
//   - A node that was cut off for longer than two thirds of Options.NodeTTL and Options.Grace, and missed the events
//     of that time, cannot tell a removed member from one who was replaced and then left. It assumes removal, so a
//     leave through another node may be undone.
//   - Fairness between nodes is that of lockmgr. An action that changes nothing does not wait for its turn.
//
// # Goroutines
//
// An action in an idle room runs in its caller's goroutine. One more goroutine runs for each room in which further
// actions wait or Redis does not answer soon, and briefly for each room whose worker has ended. [Coordinator.Start],
// or the first action, starts four: for the node's lease, its records, the other nodes, and timers that other nodes
// have not fired. Options.Feed starts two, for the feed, and Options.Report two, for reports and checks; their
// requests may use goroutines of their own. The first watch, or the first wait for a lock, starts four for events and
// wake-ups. The first list of rooms, or with Options.Report the first action, starts one that completes the index.
// [Coordinator.Close] returns when all of them have ended. go-redis has some of its own until the client is closed.
package coordinator
