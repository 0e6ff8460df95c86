package nodes

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Tally counts a node's work. It is safe for concurrent use, except that only one goroutine may call Turn.
type Tally struct {
	actions, failed, commits, waits, waited, holds, held atomic.Uint64 // waited and held in ns

	action, wait, hold *recent
}

// NewTally returns an empty Tally.
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
	Actions    uint64 `json:"actions"`
	Failed     uint64 `json:"failed"` // of the actions: those that failed without a rule refusing them
	Commits    uint64 `json:"commits"`
	LockWaits  uint64 `json:"lock_waits"`
	LockWaitMS uint64 `json:"lock_wait_ms"` // the sum of all
	LockHolds  uint64 `json:"lock_holds"`
	LockHoldMS uint64 `json:"lock_hold_ms"` // the sum of all
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

// Committed counts a commit.
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

// Totals returns the counts.
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
