package coordinator

import (
	"time"

	"roomd/lockmgr"
)

// A node that shares a busy room with others has its next token put into the line by
// the same script that gives the lock back, even if nothing waits for the room here
// at that moment: until the lock is handed to that token something will have come, and
// need not ask for the lock any more. So a hold is one request instead of two. It is done
// only as long as it pays.

// keptPlace says whether it pays to keep a place in the line. The zero value says no.
type keptPlace struct {
	pays   bool
	lined  time.Time     // when the token was put into the line
	waited time.Duration // how long the last token waited for the lock
	ended  time.Time     // when the last hold ended
}

// missing records that the lock is asked for, for want of a place: one that had been kept
// at the end of the last hold would have been of use if it had not got the lock yet.
func (p *keptPlace) missing() {
	p.lined = time.Now()
	p.pays = p.lined.Sub(p.ended) <= p.waited
}

// holdEnded records the end of a hold.
func (p *keptPlace) holdEnded() {
	p.ended = time.Now()
	p.lined = p.ended
}

// reached records that the token got the lock.
func (p *keptPlace) reached() { p.waited = time.Since(p.lined) }

// keepPlace waits in the line without anything to do, for the lock or for something
// to come. When neither has happened for twice as long as usual, it gives up.
func (w *worker) keepPlace() {
	end := time.Now().Add(min(2*w.place.waited, lockmgr.DefaultClaim))
	for w.queue.empty() && !w.held && w.lifetime.open.Err() == nil && time.Now().Before(end) {
		w.wait(w.lifetime.open)
	}
	if w.queue.empty() {
		w.place.pays = false
	}
}
