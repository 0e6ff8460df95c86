// Package timers has the timers of rooms fire: each once, by the node that has set it, or, if that node has died,
// by another one.
//
// A room has its timers in Redis, and [room.Fire] is an action under the room's lock, so it does not matter who
// tries, and how often. What is here is about who tries when. The node that has set a timer has an alarm for it
// (alarm.go). Besides, Redis has an index of all timers (Timers:due), where each node looks about once a second for
// those that should have fired and have not (poll.go). An entry is written before the commit that sets its timer,
// since the room may be on another master: an entry without a timer is harmless, and a timer without one
// would be lost with its node. It is removed when the timer has fired, or was cancelled or replaced; one without a
// timer some time after it was due, when no commit can be under way any more that sets it. Who reads a room which has
// timers writes their entries again if they are missing.
//
// A node looks once a minute whether the timers of its alarms are still there (review, in alarm.go). It removes alarms and entries
// of those that Redis has forgotten with their rooms, or another node has cancelled, and writes the other entries again.
//
// A node that stops, or has died, leaves timers that are not due yet. Their entries are hastened (hasten.go): who looks at one before
// its time has an alarm for the timer from then on, so it fires on time.
//
// The clock by which timers are due is that of the Redis server that has the index (clock.go).
//
// One goroutine runs from [Timers.Start] on, others for a moment while timers fire. [Timers.Close] ends them.
package timers
