// Package work runs actions on rooms: each waits in its room's queue (queue.go), and a worker serves the queue
// (worker.go), by itself or under the room's lock (lock.go), as its status says (status.go). The worker applies what
// waits to its copy of the room (apply.go), sends the commit, and sends it again where Redis does not answer
// (retry.go). A move does the same with two rooms and their locks (move.go, halves.go).
//
// Start with [New] and [Pool.Run]. A Pool makes what hears of each commit and runs actions by it: feeds, the node,
// timers, the lobby and the relay.
//
// An action whose room is idle is run by the goroutine of its caller. A goroutine runs for each room in which further
// actions wait, or Redis does not answer soon. [Pool.Close] returns when all of them have ended.
package work
