// Package work runs actions on rooms. Each waits in its room's queue (queue.go), and a worker serves the queue
// (worker.go), by itself or under the room's lock (lock.go), depending on its status (status.go). The worker applies
// the actions to its copy of the room (apply.go), sends the commit, and repeats it where Redis does not answer
// (retry.go). A move does the same with two rooms and their locks (move.go, halves.go).
//
// Start with [New] and [Pool.Run]. A Pool also creates the feeds, node, timers, lobby and relay, and informs them of
// commits.
//
// If a room is idle and the node knows it, the caller's goroutine runs its action. A goroutine of the Pool serves a
// room in which further actions wait, or whose commit Redis does not answer soon. [Pool.Close] returns when all of
// them have ended.
package work
