package nodes

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/room"
)

// Tally counts a node's work. It is safe for concurrent use, except that only one goroutine may call Turn.
type Tally struct {
	actions, failed, commits, waits, waited, holds, held atomic.Uint64 // waited and held in ns

	action, wait, hold *recent
}

func NewTally() *Tally { return &Tally{action: newRecent(), wait: newRecent(), hold: newRecent()} }

// recent records the durations of the last five intervals, in µs.
type recent struct {
	mu    sync.Mutex
	turns *hdrhistogram.WindowedHistogram // guarded by mu
}

// maxDuration caps a duration, in µs.
const maxDuration = int64(time.Hour / time.Microsecond)

func newRecent() *recent { return &recent{turns: hdrhistogram.NewWindowed(5, 1, maxDuration, 2)} }

func (r *recent) observe(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.turns.Current.RecordValue(min(max(0, d.Microseconds()), maxDuration)) // no error: the value is in range
}

// turn begins another interval. It returns the 99th percentile of the last five in ms; 0 if nothing was counted.
func (r *recent) turn() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	p99 := r.turns.Merge().ValueAtQuantile(99)
	r.turns.Rotate()
	return float64(p99) / 1000
}

// Totals are counts since the node's start.
type Totals struct {
	Actions    uint64 `json:"actions" doc:"That have ended."`
	Failed     uint64 `json:"failed" doc:"Of these: with busy, unavailable or unknown."`
	Commits    uint64 `json:"commits"`
	LockWaits  uint64 `json:"lock_waits" doc:"Locks that were waited for and had."`
	LockWaitMS uint64 `json:"lock_wait_ms" doc:"The sum of all waits."`
	LockHolds  uint64 `json:"lock_holds" doc:"Holds that have ended."`
	LockHoldMS uint64 `json:"lock_hold_ms" doc:"The sum of all holds."`
}

// P99 are 99th percentiles of the last five intervals of [Tally.Turn], in ms; 0 if nothing was counted.
type P99 struct {
	Action   float64 `json:"action_ms"`
	LockWait float64 `json:"lock_wait_ms"`
	LockHold float64 `json:"lock_hold_ms"`
}

// Action counts a finished action.
func (t *Tally) Action(took time.Duration, failed bool) {
	t.actions.Add(1)
	if failed {
		t.failed.Add(1)
	}
	t.action.observe(took)
}

func (t *Tally) Committed() { t.commits.Add(1) }

// Waited counts a wait for a lock.
func (t *Tally) Waited(d time.Duration) {
	t.waits.Add(1)
	t.waited.Add(uint64(max(0, d)))
	t.wait.observe(d)
}

// Held counts a finished hold.
func (t *Tally) Held(d time.Duration) {
	t.holds.Add(1)
	t.held.Add(uint64(max(0, d)))
	t.hold.observe(d)
}

func (t *Tally) Totals() Totals {
	ms := func(ns *atomic.Uint64) uint64 { return ns.Load() / uint64(time.Millisecond) }
	return Totals{
		Actions: t.actions.Load(), Failed: t.failed.Load(), Commits: t.commits.Load(),
		LockWaits: t.waits.Load(), LockWaitMS: ms(&t.waited), LockHolds: t.holds.Load(), LockHoldMS: ms(&t.held),
	}
}

// Turn begins another interval, and returns the percentiles of the last five. Call it once a second.
func (t *Tally) Turn() P99 {
	return P99{t.action.turn(), t.wait.turn(), t.hold.turn()}
}

// Trace holds functions that a coordinator calls when something happens that an operator counts; a nil function is
// skipped. They must return at once, may not call the coordinator, and are called from many goroutines.
type Trace struct {
	// Done is called when a call of Do or Move returns. err is its error, took its duration. A Move's kind is "move".
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
func (t *Trace) Counting(counted *Tally) *Trace {
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
		if also.Committed != nil {
			also.Committed()
		}
	}
	return &both
}

// hasFailed reports whether an action ended with room.ErrBusy, ErrUnavailable or ErrUnknown.
func hasFailed(err error) bool {
	return err != nil && (errors.Is(err, room.ErrBusy) || errors.Is(err, room.ErrUnavailable) ||
		errors.Is(err, room.ErrUnknown))
}
