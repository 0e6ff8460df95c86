package lab

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"roomd/loadtest/lab/anomaly"
)

// recorder keeps the history of a cell.
type recorder struct {
	start time.Time

	mu     sync.Mutex
	events []anomaly.Event // guarded by mu
}

// add adds an event. A zero At means now.
func (r *recorder) add(e anomaly.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.At == 0 {
		e.At = time.Since(r.start)
	}
	// A spinning caller may prolong a lock hundreds of times.
	if n := len(r.events); n > 0 && e.Kind == anomaly.Refreshed {
		last := &r.events[n-1]
		if last.Kind == e.Kind && last.Caller == e.Caller && last.Owner == e.Owner {
			last.Times = max(last.Times, 1) + 1
			return
		}
	}
	r.events = append(r.events, e)
}

// all returns the events in order of time.
func (r *recorder) all() []anomaly.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b anomaly.Event) int { return cmp.Compare(a.At, b.At) })
	return events
}
