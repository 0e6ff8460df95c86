package lab

import (
	"runtime"

	"roomd/loadtest/lab/anomaly"
)

// step is a place in a discipline where the driver can stop or crash a caller.
type step string

const (
	stepDrawn   step = "drawn"   // the caller has drawn a number that another may draw, too
	stepSet     step = "set"     // SETNX has set the lock, EXPIRE has not been sent
	stepTried   step = "tried"   // SETNX has not set the lock, GET has not been sent
	stepLocked  step = "locked"  // the caller has the lock
	stepRead    step = "read"    // it has read the list, and is about to write it
	stepWrote   step = "wrote"   // it has written the list
	stepGiving  step = "giving"  // it is about to release the lock
	stepGave    step = "gave"    // its release has freed the lock
	stepChecked step = "checked" // it is about to delete the lock after checking that it may
	stepExpired step = "expired" // it is about to take over a lock whose time is past
)

// lockSteps are the steps of every discipline with a lock.
var lockSteps = []step{stepLocked, stepRead, stepWrote, stepGiving, stepGave}

// with returns lockSteps and more.
func with(more ...step) []step { return append(more, lockSteps...) }

// strike is what the driver does to a caller at a step.
type strike int

const (
	nothing strike = iota
	hold           // stop until letGo
	crash          // run no later step
)

// at marks a step between a discipline's commands. It does not return if the caller
// crashes here.
func (c *caller) at(s step) {
	if !c.reach(s) {
		runtime.Goexit()
	}
}

// reach lets the driver strike at a step, and reports whether the caller survives.
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
