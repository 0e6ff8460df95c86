package work

import (
	"errors"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/nodes"
)

// Trace holds functions that a coordinator calls when something happens that an operator counts; a nil function is
// skipped. They must return at once, may not call the coordinator, and are called from many goroutines.
type Trace struct {
	// Done is called when a call of Do returns. err is its error, took its duration.
	Done func(kind room.Kind, err error, took time.Duration)

	// Acquired is called for each hold of a room's lock, before Ended. waited is the time since the hold's first
	// action came or the room's last hold here ended, whichever was later.
	Acquired func(waited time.Duration)

	// Ended is called when a hold of that many actions has ended. lost is nil, or says why the node did not release
	// the lock: ErrStaleCommit or ErrHoldUnknown.
	Ended func(held time.Duration, actions int, lost error)

	// Committed is called when a commit has been written. A move commits in two rooms.
	Committed func()

	// Reapplied is called when actions are applied again, because the node's copy was at another version.
	Reapplied func()

	// Evicted is called when that many members of a dead or stopped node were removed from a room. stopped says that
	// the node was drained: some of its members did not come back within the grace, which is normal.
	Evicted func(members int, stopped bool)

	// Resynced is called when a room's watchers on this node get a snapshot in place of missed events.
	Resynced func()

	// Renamed is called when the node takes a new name, because its lease was lost.
	Renamed func()
}

// The reasons of Trace.Ended. In both cases the lock has expired, or somebody has deleted it.
var (
	// ErrStaleCommit: Redis refused a commit whose lock was lost. The actions run again under a new hold.
	ErrStaleCommit = errors.New("a stale commit was refused")

	// ErrHoldUnknown: Redis did not answer before the lock expired. The actions failed with [room.ErrUnknown].
	ErrHoldUnknown = errors.New("a hold ended without an answer")
)

// Counting returns a Trace that also counts in counted.
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

// hasFailed reports whether an action failed other than by a refusal of its room's rules.
func hasFailed(err error) bool {
	return err != nil && (errors.Is(err, room.ErrBusy) || errors.Is(err, room.ErrUnavailable) ||
		errors.Is(err, room.ErrUnknown))
}
