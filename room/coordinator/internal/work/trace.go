package work

import (
	"errors"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/nodes"
)

// Trace holds functions that a coordinator calls when something happens that an operator
// counts. A nil function is not called, and costs nothing. They must return at once, may not
// call the coordinator, and are called from many goroutines.
type Trace struct {
	// Done is called when a call of Do returns err, nil for success, after so long.
	Done func(kind room.Kind, err error, took time.Duration)

	// Acquired is called for each hold of a room's lock, before Ended. waited is how long the lock was
	// wanted: since the first of the hold's actions came, or since the room's last hold here
	// ended, if that was later.
	Acquired func(waited time.Duration)

	// Ended is called when a hold with so many actions has ended, after so long. lost is nil,
	// or says that the node did not release the lock.
	Ended func(held time.Duration, actions int, lost error)

	// Committed is called when a commit has been written. A move commits in two rooms.
	Committed func()

	// Reapplied is called when a commit finds the room at another version than this node's
	// copy. Its actions are applied again.
	Reapplied func()

	// Evicted is called when so many members of a node that is gone were removed from a room. stopped says
	// that the node was drained: its members did not come back within the grace, as some never do.
	Evicted func(members int, stopped bool)

	// Resynced is called when a room's watchers on this node get a snapshot instead of events
	// that were missed.
	Resynced func()

	// Renamed is called when the node takes a new name, because its lease was lost.
	Renamed func()
}

// What Trace.Ended calls a lost lock. In both cases the lock's TTL is over, or somebody has
// deleted the lock.
var (
	// ErrStaleCommit: Redis refused the commit, because the lock was not the node's any more.
	// The actions run again under a new hold.
	ErrStaleCommit = errors.New("a stale commit was refused")

	// ErrHoldUnknown: Redis did not answer the commit until the lock had expired. The actions
	// failed with [room.ErrUnknown].
	ErrHoldUnknown = errors.New("a hold ended without an answer")
)

// Counting returns a Trace that counts, too.
func (t *Trace) Counting(counted *nodes.Tally) *Trace {
	both, also := *t, *t
	both.Done = func(kind room.Kind, err error, took time.Duration) {
		counted.Action(took, hasFailed(err))
		if also.Done != nil {
			also.Done(kind, err, took)
		}
	}
	both.Acquired = func(waited time.Duration) {
		counted.Waited(waited)
		if also.Acquired != nil {
			also.Acquired(waited)
		}
	}
	both.Ended = func(held time.Duration, actions int, lost error) {
		counted.Held(held)
		if also.Ended != nil {
			also.Ended(held, actions, lost)
		}
	}
	both.Committed = func() {
		counted.Committed()
		call(also.Committed)
	}
	return &both
}

// hasFailed reports whether an action ended with something other than success or a refusal by the
// rules of its room.
func hasFailed(err error) bool {
	return err != nil && (errors.Is(err, room.ErrBusy) || errors.Is(err, room.ErrUnavailable) ||
		errors.Is(err, room.ErrUnknown))
}
