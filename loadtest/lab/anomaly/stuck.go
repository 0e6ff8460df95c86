package anomaly

import "time"

// stuckTTLs is for how many TTLs nothing may move until a room counts as stuck:
// after one the lock of a holder that is gone has expired.
const stuckTTLs = 2

// wait is a time in which callers waited and nobody got anywhere.
type wait struct {
	length time.Duration
	until  time.Duration
	waiter string // the one at its end
	gaveUp bool   // it ended because nobody waited any more
}

// longestWait returns the longest of these times.
func longestWait(events []Event) wait {
	var longest wait
	var since time.Duration // nobody has got anywhere
	waiting := make(map[string]bool)
	paused := make(map[string]bool) // and asking
	look := func(e Event, gaveUp bool) {
		if d := e.At - since; len(waiting) > 0 && d > longest.length {
			longest = wait{d, e.At, e.Caller, gaveUp}
		}
	}
	// join counts a caller that begins to wait, or goes on to.
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
		case Acquired, Locked, Wrote, Stored:
			look(e, false)
			since = e.At
		case ToldOK:
			look(e, false)
			since = e.At
			delete(waiting, e.Caller)
		case ToldFailed, ToldUnknown:
			look(e, len(waiting) == 1)
			delete(waiting, e.Caller)
		case Crashed:
			look(e, false)
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
