// Package anomaly finds anomalies of a lock in a history: the replies to callers, and the contents of Redis.
//
// A [History] is the events of one room in order of time. Callers record their requests, reads, writes and
// replies. An observer may also record who held the lock's key and what the list contained. [Find] returns the
// anomalies:
//
//   - lost: a caller's join or leave was acknowledged, and a later list does not show it;
//   - phantom: a user is in the list after an acknowledged leave or a refused join;
//   - duplicate: a user is in the list more than once;
//   - two holders: the holds of two callers overlap. A hold lasts from its acquisition to its last write;
//     without a write it harms nobody and does not count. Without a lock it starts with the read: such an
//     overlap is a dirty read;
//   - deleted: a caller's command removed another caller's lock;
//   - kept: a caller released the lock, by its own account, and still has it;
//   - stuck: callers waited and gave up, and nobody made progress for at least two TTLs; or for any time, if
//     the lock is still there at the end, does not expire, and nobody can free it.
//
// A request with an unknown outcome (its caller crashed, or got an error after it sent its write) may have been
// carried out or not; neither is an anomaly. The package imports nothing of ours, so that a mistake in the
// locks cannot hide in the proof.
package anomaly

import "time"

// Kind is the kind of an [Event].
type Kind string

// Events of callers. The time is the cautious one: when the reply to a request came, and when a write was sent.
const (
	Asked       Kind = "asked"        // to join, or to leave if Leave is set
	Refused     Kind = "refused"      // found the lock held, for the first time
	Acquired    Kind = "acquired"     // got the lock, according to its reply
	Read        Kind = "read"         // the list, as in Users
	Wrote       Kind = "wrote"        // the list, as in Users
	Released    Kind = "released"     // released the lock, by its own account
	ToldOK      Kind = "told ok"      // acknowledged
	ToldFailed  Kind = "told failed"  // nothing was written
	ToldUnknown Kind = "told unknown" // it may have been written
	Paused      Kind = "paused"       // stopped by the fault
	Resumed     Kind = "resumed"
	Crashed     Kind = "crashed"    // does nothing more, and gets no reply
	ReplyLost   Kind = "reply lost" // Redis executed the command
)

// Events of an observer of Redis. Caller is the sender of the command.
const (
	Locked    Kind = "locked"    // the key is now Owner's
	Unlocked  Kind = "unlocked"  // Owner's key is gone
	Expired   Kind = "expired"   // Owner's lock expired, without a command
	Forgotten Kind = "forgotten" // a failover of Redis lost Owner's lock
	Stored    Kind = "stored"    // the list, as in Users
)

// Event is an event of the history.
type Event struct {
	At     time.Duration // since the history began
	Caller string
	Kind   Kind
	Leave  bool
	Owner  string
	Users  []string
}

// History is the history of one room. A caller acts for the user with its name, one request at a time.
type History struct {
	Events  []Event  // in order of time
	Initial []string // the list at the start
	Final   []string // the list at the end
	TTL     time.Duration
	Forever bool // at the end the lock's key still exists, and does not expire
}
