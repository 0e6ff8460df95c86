package coordinator

import "roomd/room/coordinator/internal/work"

// Trace holds functions that a [Coordinator] calls when something happens that an operator counts.
type Trace = work.Trace

// What Trace.Ended calls a lost lock.
var (
	ErrStaleCommit = work.ErrStaleCommit
	ErrHoldUnknown = work.ErrHoldUnknown
)
