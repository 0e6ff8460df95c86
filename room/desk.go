package room

import (
	"container/list"
	"sync"
	"time"

	"roomd/lockmgr"
)

// desk is where one room is worked at on this node: what waits for it, a copy of
// the room, and the node's place in the line for its lock. A goroutine works at it
// as long as something waits. Afterwards it rests, and keeps the copy for a while,
// so that the next action need not read the room: the lock is taken together with
// the answer that the copy still stands.
type desk struct {
	queue
	keys   keys
	ticket *lockmgr.Ticket

	// Of the goroutine that works here.
	copy   *Room     // nil: not known
	acked  string    // the mark of the last commit that enough replicas are known to have
	turn   bool      // the lock holds the ticket's token, as far as we know
	inLine bool      // the token waits in Redis, or holds the lock: it has to be given up
	place  keptPlace // in the line, between two holds
	alone  bool      // nobody else was met at the last hold
	listed *identity // the name under which Redis knows that we may have members here; nil: none

	retired bool // nothing is left to do here, unless something comes

	// While other nodes write to the room too, their events keep the copy as it
	// should be.
	events   inbox
	unfollow func() // nil while nobody follows

	rest *list.Element // guarded by Coordinator.mu: among the desks that rest; nil while somebody works here
	size int           // guarded by Coordinator.mu: what it counts for while it rests
	left time.Time     // guarded by Coordinator.mu: when work ended
}

// copyIdle is how long a quiet room's copy is kept.
const copyIdle = time.Minute

// deskSize is what a copy without members counts for.
const deskSize = 8

// settle lets a desk rest, and closes those that have rested longest while there
// are too many copies.
func (c *Coordinator) settleLocked(d *desk) {
	d.left, d.size = time.Now(), deskSize
	if d.copy != nil {
		d.size += len(d.copy.members)
	}
	d.rest = c.resting.PushBack(d)
	c.copies += d.size
	for c.copies > c.opts.MaxCopies && c.resting.Len() > 0 {
		c.retireLocked(c.resting.Front().Value.(*desk))
	}
	if c.sweeper == nil && c.resting.Len() > 0 && !c.closed {
		c.sweeper = time.AfterFunc(copyIdle, c.sweep)
	}
}

// resumeLocked takes a desk out of its rest.
func (c *Coordinator) resumeLocked(d *desk) {
	c.resting.Remove(d.rest)
	c.copies -= d.size
	d.rest = nil
}

// closeLocked ends a desk at which nobody works.
func (c *Coordinator) closeLocked(d *desk) {
	delete(c.desks, d.id)
	d.ticket.Close()
	if d.unfollow != nil {
		d.unfollow()
	}
}

// sweep closes the desks that have rested for long.
func (c *Coordinator) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweeper = nil
	for c.resting.Len() > 0 {
		d := c.resting.Front().Value.(*desk)
		if left := copyIdle - time.Since(d.left); left > 0 {
			if !c.closed {
				c.sweeper = time.AfterFunc(left, c.sweep)
			}
			return
		}
		c.retireLocked(d)
	}
}

// retireLocked ends a desk that rests, after a last piece of work there.
func (c *Coordinator) retireLocked(d *desk) {
	c.resumeLocked(d)
	if c.closed {
		return // Close ends it
	}
	c.busy.Go(func() {
		_ = c.retire(d) // tidy tries again
		c.serve(d)
	})
}

// closeDesks closes all desks. Nobody works at one any more.
func (c *Coordinator) closeDesks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sweeper != nil {
		c.sweeper.Stop()
	}
	for _, d := range c.desks {
		c.closeLocked(d)
	}
}

// follow has the copy kept up to date from now on: another node writes to the room.
func (c *Coordinator) follow(d *desk) {
	if d.unfollow == nil {
		d.unfollow = c.feeds.follow(d.id, d.events.put)
	}
}

// catchUp brings the copy to where the events that came say that the room is.
func (d *desk) catchUp() {
	events, missed := d.events.take()
	if d.copy == nil {
		return
	}
	for _, e := range events {
		if !d.copy.follow(e) {
			missed = true
			break
		}
	}
	if missed {
		d.copy = nil
	}
}

// maxInbox is how many events a desk keeps before it gives up its copy.
const maxInbox = 256

// inbox is the events of a room that its copy has not followed yet. The zero value
// is empty.
type inbox struct {
	mu     sync.Mutex
	events []*Event // guarded by mu
	missed bool     // guarded by mu: there were more
}

func (i *inbox) put(e *Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.events) == maxInbox {
		i.events, i.missed = nil, true
	}
	i.events = append(i.events, e)
}

func (i *inbox) take() (events []*Event, missed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	events, missed = i.events, i.missed
	i.events, i.missed = nil, false
	return events, missed
}
