package anomaly

import "time"

// Kind says what happened in an [Event].
type Kind string

// What callers record. The time is always the cautious one: that of the reply to a
// request, and that of sending a write.
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
	Refreshed Kind = "refreshed" // Caller prolonged Owner's lock
	Stored    Kind = "stored"    // the list, as in Users
)

// Event is one thing that happened.
type Event struct {
	At     time.Duration `json:"at"` // since the history began
	Caller string        `json:"caller,omitempty"`
	Kind   Kind          `json:"kind"`
	Leave  bool          `json:"leave,omitempty"`
	Owner  string        `json:"owner,omitempty"`
	Users  []string      `json:"users,omitempty"`
	Times  int           `json:"times,omitempty"` // how often, if more than once in a row
}

// History is what happened to one room. A caller acts for the user of its name,
// one request at a time.
type History struct {
	Events  []Event  // in order of time
	Initial []string // who was in the list before
	Final   []string // who was in it at the end
	TTL     time.Duration
	// Forever says that the lock's key was still there at the end and would not expire.
	Forever bool
}
