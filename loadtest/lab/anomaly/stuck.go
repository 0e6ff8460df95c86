package anomaly

import "time"

// stuckTTLs is after how many TTLs without progress a room counts as stuck. A dead holder's lock expires after one.
const stuckTTLs = 2

// wait is a time in which callers waited without any progress.
type wait struct {
	length time.Duration
	until  time.Duration
	waiter string // at its end
	gaveUp bool   // it ended because nobody waited any more
}

// longestWait returns the longest of these times.
func longestWait(events []Event) (longest wait) {
	var since time.Duration // the last progress
	waiting := make(map[string]bool)
	paused := make(map[string]bool) // and asking
	look := func(e Event, gaveUp bool) {
		if d := e.At - since; len(waiting) > 0 && d > longest.length {
			longest = wait{d, e.At, e.Caller, gaveUp}
		}
	}
	join := func(e Event) {
		if len(waiting) == 0 {
			since = e.At
		}
		waiting[e.Caller] = true
	}
	for _, e := range events {
		switch e.Kind {
		case Asked:
			join(e)
		case Acquired, Locked, Wrote, Stored, ToldOK:
			look(e, false)
			since = e.At
			if e.Kind == ToldOK {
				delete(waiting, e.Caller)
			}
		case ToldFailed, ToldUnknown, Crashed:
			look(e, e.Kind != Crashed && len(waiting) == 1)
			delete(waiting, e.Caller)
		case Paused:
			if waiting[e.Caller] {
				look(e, false)
				delete(waiting, e.Caller)
				paused[e.Caller] = true
			}
		case Resumed:
			if paused[e.Caller] {
				delete(paused, e.Caller)
				join(e)
			}
		}
	}
	return longest
}
