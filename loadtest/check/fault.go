package check

import (
	"slices"
	"time"
)

// Fault is a fault with its allowed effects.
type Fault struct {
	Name string        `json:"name"`
	On   string        `json:"on"` // its target
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	Well time.Duration `json:"well"` // time of recovery; 0: never

	// Loses says that Redis may lose data acknowledged after Since and before the end.
	Loses bool `json:"loses,omitzero"`
	// Since is the start of Loses.
	Since time.Duration `json:"since,omitzero"`
	// Splits says that one server may replace another: for a while clients may see old data.
	Splits bool `json:"splits,omitzero"`
	// Evicts says that nodes may take each other for dead, up to Until: users may lose their seats and get them
	// back without notice.
	Evicts bool          `json:"evicts,omitzero"`
	Until  time.Duration `json:"until,omitzero"`
}

// split reports whether two servers may have answered for the room during an operation.
func (h *History) split(op *Op) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.splits(op) })
}

func (f Fault) splits(op *Op) bool { return f.Splits && f.From <= op.Return && op.Call <= f.Until }

// since returns from when the reply to an operation may be true: from its call, or, for a read while one server
// may have replaced another, from that time.
func (h *History) since(op *Op) time.Duration {
	since := op.Call
	for _, f := range h.Faults {
		if f.splits(op) && (op.Action == Read || op.Outcome == Refused) {
			since = min(since, f.From)
		}
	}
	return since
}

// evicts reports whether nodes may have taken each other for dead between two times.
func (f Fault) evicts(from, to time.Duration) bool {
	return f.Evicts && f.From <= to && (f.Until == 0 || from <= f.Until)
}

// halfDone reports whether an operation is a move that others may have seen half done, at another version than the
// answer's, and until when such a view may have started. An acknowledged move may have been undone before. The old
// room may be at a later version when the server finds that the users have left it. Of a refused move, others may have
// seen only the first half, in the new room.
func (h *History) halfDone(op *Op) (until time.Duration, may bool) {
	switch {
	case !h.Halves || op.Action != MoveIn && op.Action != MoveOut:
		return 0, false
	case op.Outcome == Done, op.Outcome == Refused && op.Action == MoveIn:
		return op.Return, true
	}
	return 0, false
}
