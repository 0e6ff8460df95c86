package room

import (
	"time"

	"roomd/lockmgr"
)

// A node that shares a busy room with others has its next token put into the line by
// the same script that gives the lock back, even if nothing waits for the room here
// at that moment: until it is that token's turn, something will have come, and
// need not ask for the lock any more. That makes one request of a hold instead of
// two. It is done only as long as it pays.

// keptPlace says whether it pays to keep a place in the line. The zero value does
// not know of any use.
type keptPlace struct {
	pays   bool
	lined  time.Time     // when the token was put into the line
	waited time.Duration // how long the last token waited for its turn
	left   time.Time     // when the last hold ended
}

// asks notes that the lock is asked for, for want of a place: one that had been kept at
// the end of the last hold would have been of use if its turn had not come yet.
func (p *keptPlace) asks() {
	p.lined = time.Now()
	p.pays = p.lined.Sub(p.left) <= p.waited
}

// leaves notes the end of a hold.
func (p *keptPlace) leaves() {
	p.left = time.Now()
	p.lined = p.left
}

// turn notes that the token's turn has come.
func (p *keptPlace) turn() { p.waited = time.Since(p.lined) }

// keepPlace waits in the line without anything to do, for its turn or for something
// to come. When neither has happened for twice as long as usual, it gives up.
func (c *Coordinator) keepPlace(d *desk) {
	c.follow(d)
	d.ticket.Listen()
	end := time.Now().Add(min(2*d.place.waited, lockmgr.DefaultClaim))
	for d.empty() && !d.turn && c.open.Err() == nil && time.Now().Before(end) {
		c.wait(c.open, d)
	}
	if d.empty() {
		d.place.pays = false
	}
}
