package coordinator

import "roomd/room/coordinator/internal/work"

// Trace holds functions that a [Coordinator] calls when something happens that an operator counts.
type Trace = work.Trace

// The reasons of Trace.Ended.
var (
	ErrStaleCommit = work.ErrStaleCommit
	ErrHoldUnknown = work.ErrHoldUnknown
)
