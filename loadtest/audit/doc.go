// Package audit replays the journals of rooms and says what does not fit: to each other, or
// to what Redis has now.
//
// [Run] searches a Redis for journals (Room:<id>:Log), reads each in pages while the nodes go
// on, and its end together with the room's members and Meta in one step. An oracle of its own
// replays the entries: who sits where, who is away, the settings, the data, the bans. What an
// entry cannot do by what came before is a [Finding], and so is each difference between the
// last state and Redis.
//
// A journal that was trimmed begins in the middle. What it has not said yet is unknown, and
// nothing contradicts that; but all that it says later, and what Redis has in the end, must
// fit one state in which it can have begun. The same holds behind a gap, which is a finding,
// and where an epoch begins, which is not: there Redis had lost something, and the report
// counts that.
//
// The package promises that a journal which a correct node can write gives no finding. It
// cannot see what neither the journal nor Redis shows: a commit that is missing in both, or
// entries that were deleted from the beginning.
//
// It imports nothing of the server, so that a mistake in the rules cannot hide in the proof.
// Run has a few goroutines, which end with it.
package audit
