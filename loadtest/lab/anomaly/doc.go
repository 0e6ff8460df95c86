// Package anomaly finds what went wrong with a lock, from nothing but a history:
// what its callers were told, and what Redis held.
//
// A [History] is the events of one room in order of time. Callers record what
// they asked, read, wrote and were told; an observer may record, besides, whose
// the lock's key was and what the list held. [Find] returns what is wrong, and
// [Findings.Counts] counts it:
//
//   - lost: somebody was told that a join or leave has succeeded, and does not
//     find it so, later or at the end;
//   - phantom: somebody is in the list who was told to have left, or that the join
//     has failed;
//   - duplicate: somebody stands in the list more than once;
//   - two holders: two callers were between taking the lock and their last write
//     at the same time. A hold that wrote nothing disturbs nobody and is none. For
//     a discipline without a lock the hold begins with the read: what it then
//     finds is the dirty read, of a list that somebody is about to overwrite;
//   - deleted: a caller's command removed a lock that was another's;
//   - stuck: callers waited, and nobody got anywhere until they gave up, after two
//     TTLs at the earliest; or at any time, if the lock is still there in the end,
//     with nobody left to free it, and will not expire.
//
// A request whose outcome its caller does not know (it crashed, or got an error
// after its write had been sent) may have happened or not; neither is counted.
//
// The package imports nothing of ours and starts no goroutines: a mistake in the
// locks cannot hide in the proof.
package anomaly
