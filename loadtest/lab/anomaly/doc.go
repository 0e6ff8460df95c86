// Package anomaly finds what went wrong with a lock, from nothing but a history: the
// replies that callers got, and the contents of Redis.
//
// A [History] is the events of one room in order of time. Callers record their requests,
// reads, writes and replies. An observer may also record who held the lock's key and what
// the list contained. [Find] returns what is wrong, and [Findings.Counts] counts it:
//
//   - lost: a caller's join or leave was acknowledged, and a later list, or the last one,
//     does not show it;
//   - phantom: a user is in the list after an acknowledged leave or a refused join;
//   - duplicate: a user is in the list more than once;
//   - two holders: two callers were at the same time between taking the lock and their
//     last write. A hold without a write harms nobody and does not count. Without a lock
//     the hold begins with the read: such an overlap is a dirty read, of a list that
//     somebody is about to overwrite;
//   - deleted: a caller's command removed another caller's lock;
//   - stuck: callers waited and gave up, and nobody made progress for at least two TTLs;
//     or for any time, if the lock is still there at the end, will not expire, and has
//     nobody to free it.
//
// A request with an unknown outcome (its caller crashed, or got an error after sending
// its write) may have happened or not. Neither counts.
//
// The package imports none of ours and starts no goroutines: a mistake in the locks cannot
// hide in the proof.
package anomaly
