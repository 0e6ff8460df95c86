// Package anomaly finds what went wrong with a lock, from nothing but a history: the replies that callers got, and the
// contents of Redis.
//
// A [History] is the events of one room in order of time. Callers record their requests, reads, writes and replies. An
// observer may also record who held the lock's key and what the list contained. [Find] returns what is wrong:
//
//   - lost: a caller's join or leave was acknowledged, and a later list, or the last one, does not show it;
//   - phantom: a user is in the list after an acknowledged leave or a refused join;
//   - duplicate: a user is in the list more than once;
//   - two holders: two callers were at the same time between taking the lock and their last write. A hold without a write
//     harms nobody and does not count. Without a lock the hold begins with the read: such an overlap is a dirty read;
//   - deleted: a caller's command removed another caller's lock;
//   - kept: a caller released the lock, by its own account, and the lock is still its own;
//   - stuck: callers waited and gave up, and nobody made progress for at least two TTLs; or for any time, if the lock is
//     still there at the end, will not expire, and has nobody to free it.
//
// A request with an unknown outcome (its caller crashed, or got an error after sending its write) may have happened
// or not. Neither counts. The package imports none of ours: a mistake in the locks cannot hide in the proof.
package anomaly

import "time"

// Kind says what happened in an [Event].
type Kind string

// What callers record. The time is always the cautious one: that of the reply to a request, and that of sending a
// write.
const (
	Asked       Kind = "asked"        // to join, or with Leave to leave
	Refused     Kind = "refused"      // found the lock taken, for the first time
	Acquired    Kind = "acquired"     // got the lock, by its reply
	Read        Kind = "read"         // the list, as in Users
	Wrote       Kind = "wrote"        // the list, as in Users
	Released    Kind = "released"     // released the lock, by its own account
	ToldOK      Kind = "told ok"      // "you are in", or out
	ToldFailed  Kind = "told failed"  // nothing was written
	ToldUnknown Kind = "told unknown" // it may have been written
	Paused      Kind = "paused"       // by the fault
	Resumed     Kind = "resumed"
	Crashed     Kind = "crashed"    // does nothing more, and is told nothing
	ReplyLost   Kind = "reply lost" // of a command that was carried out
)

// What an observer records of Redis. Caller is the sender of the command.
const (
	Locked    Kind = "locked"    // the key is now Owner's
	Unlocked  Kind = "unlocked"  // the key, which was Owner's, is gone
	Expired   Kind = "expired"   // Owner's lock expired; there was no command
	Forgotten Kind = "forgotten" // Redis failed over, and Owner's lock is gone
	Stored    Kind = "stored"    // the list, as in Users
)

// Event is one thing that happened.
type Event struct {
	At     time.Duration // since the history began
	Caller string
	Kind   Kind
	Leave  bool
	Owner  string
	Users  []string
}

// History is what happened to one room. A caller acts for the user of its name, one request at a time.
type History struct {
	Events  []Event  // in order of time
	Initial []string // who was in the list before
	Final   []string // who was in it at the end
	TTL     time.Duration
	Forever bool // the lock's key was still there at the end and would not expire
}
