package coordinator

import (
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Two nodes whose players share a table write to it by turns, and a commit that finds the room at another version
// has most often met one that came a moment earlier. It is applied again and sent again, still without the lock: who takes the lock
// has the others queue, and each of them has to be woken. Optimistic concurrency control (Kung and Robinson, 1981) does the
// same, and like there, who has failed a few times is let through: he takes the lock.

const (
	// maxBehind is how often in a row a commit may find another room before it takes the lock.
	maxBehind = 3

	// eventPatience is how long a worker waits for the event of a commit that its own has met, before it reads the room.
	eventPatience = 20 * time.Millisecond
)

// behind is how a worker's last commits have fallen behind. The zero value says that they did not.
type behind struct {
	times int  // in a row
	deaf  bool // the event of a commit that was met did not come, and none has since
}

// asks returns what the next commit does if it finds another room than the copy, which follows the room's events or not.
func (l behind) asks(follows bool) store.Behind {
	switch {
	case l.times >= maxBehind:
		return store.TakeLock
	case follows && !l.deaf:
		return store.HearRoom
	}
	return store.ReadRoom
}

// fallBehind goes on from the room that a commit has found, or if the commit has not read that, from what the events say.
func (w *worker) fallBehind(now *room.Room) {
	call(w.ws.opts.Trace.Reapplied)
	w.quiet = false
	w.behind.times++
	if now != nil {
		w.behind.deaf = w.behind.deaf && !w.copy.HasNews()
		w.found(now)
		return
	}
	w.copy.Room.Revert()
	w.behind.deaf = !w.copy.Await(eventPatience)
}
