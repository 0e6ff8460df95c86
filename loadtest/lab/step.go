package lab

import (
	"runtime"

	"roomd/loadtest/lab/anomaly"
)

// step is a place in a discipline where the driver can stop or crash a caller.
type step string

const (
	stepDrawn   step = "drawn"   // the caller has drawn a number that another may draw
	stepSet     step = "set"     // SETNX has set the lock, EXPIRE has not been sent
	stepTried   step = "tried"   // SETNX has not set the lock, GET has not been sent
	stepLocked  step = "locked"  // the caller has the lock
	stepRead    step = "read"    // it has read the list, and is about to write it
	stepWrote   step = "wrote"   // it has written the list
	stepGiving  step = "giving"  // it is about to give the lock back
	stepGave    step = "gave"    // its release has freed the lock
	stepChecked step = "checked" // it has found that it may delete the lock, and is about to
	stepExpired step = "expired" // it has found the holder's time past, and is about to take over
)

// lockSteps are those of every discipline with a lock.
var lockSteps = []step{stepLocked, stepRead, stepWrote, stepGiving, stepGave}

// with returns the steps of a lock that has more of them.
func with(more ...step) []step { return append(more, lockSteps...) }

// strike is what the driver does to a caller at a step.
type strike int

const (
	nothing strike = iota
	hold           // until it is let go
	crash          // none of its later steps is run
)

// at is called by a discipline between its commands. If the caller is to crash
// here, it does not return.
func (c *caller) at(s step) {
	if !c.reach(s) {
		runtime.Goexit()
	}
}

// reach lets the driver strike at a step, and reports whether the caller lives
// on.
func (c *caller) reach(s step) bool {
	x := c.x
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reached[s] = true
	switch c.plan[s] {
	case crash:
		x.crashLocked(c)
	case hold:
		delete(c.plan, s)
		x.struck = x.struck || c.user == victimUser
		c.held = true
		x.changed.Broadcast()
		c.record(anomaly.Event{Kind: anomaly.Paused})
		for c.held && !c.dead {
			x.changed.Wait()
		}
		c.record(anomaly.Event{Kind: anomaly.Resumed})
	}
	return !c.dead
}

// crashLocked ends a caller and its process at once.
func (x *cell) crashLocked(c *caller) {
	c.record(anomaly.Event{Kind: anomaly.Crashed})
	c.dead, x.struck = true, true
	c.process.die()
	c.cancel()
	x.changed.Broadcast()
}
