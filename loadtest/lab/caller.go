package lab

import (
	"context"
	"errors"
	"runtime"
	"time"

	"roomd/loadtest/lab/anomaly"
	"roomd/room"
)

// errBusy says that the player did not get the lock in time.
var errBusy = errors.New("the room is busy")

// spinPause is the pause between two attempts in articles that spin. It is not scaled.
const spinPause = 5 * time.Millisecond

// caller is a process that asks to join or to leave for one player.
type caller struct {
	*process
	user    string
	leave   bool
	ahead   int64              // published seconds by which its clock is fast
	value   string             // its value for the lock
	end     string             // end of the hold by its clock, as last written into the lock
	drawsAt time.Time          // time from which it draws its value: equal times draw equal values; zero means now
	cancel  context.CancelFunc // cancels its request; nil before that

	asked time.Time
	sent  bool // it has sent its write; an error after that leaves the outcome unknown

	// Guarded by x.mu.
	strikeAt step // step where the driver stops it
	dies     bool // it crashes at strikeAt
	held     bool // it is stopped at a step
	dead     bool // it has crashed
	done     bool // it has its answer, or has died
	waited   bool // it found the lock held
}

// States of a caller that the driver waits for. The cell's mu is held.
func (c *caller) stopped() bool { return c.held || c.ended() }
func (c *caller) idle() bool    { return c.waited || c.ended() }
func (c *caller) ended() bool   { return c.dead || c.done }

// record adds an event of the caller to the history.
func (c *caller) record(e anomaly.Event) {
	e.Caller = c.user
	c.x.record(e)
}

// request runs one join or leave and records its outcome.
func (c *caller) request(ctx context.Context) {
	c.asked, c.sent = time.Now(), false
	c.x.mu.Lock()
	c.waited = false
	c.x.mu.Unlock()
	c.record(anomaly.Event{Kind: anomaly.Asked, Leave: c.leave})
	err := c.ask(ctx)
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	switch {
	case c.dead:
	case err == nil:
		c.record(anomaly.Event{Kind: anomaly.ToldOK})
	case c.sent || errors.Is(err, room.ErrUnknown):
		c.record(anomaly.Event{Kind: anomaly.ToldUnknown})
	default:
		c.record(anomaly.Event{Kind: anomaly.ToldFailed})
	}
}

// turnedAway records that the caller found the lock held.
func (c *caller) turnedAway() {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if !c.waited {
		c.waited = true
		c.record(anomaly.Event{Kind: anomaly.Refused})
		c.x.changed.Broadcast()
	}
}

// pause sleeps between two attempts. It returns errBusy when the player's patience or the cell's time is over.
func (c *caller) pause(ctx context.Context, d time.Duration) error {
	c.turnedAway()
	if x := c.x; time.Since(c.asked) > x.patience || !x.ends.IsZero() && time.Now().After(x.ends) {
		return errBusy
	}
	return sleep(ctx, d)
}

// sleep returns after d, or with the cause of ctx if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// now returns the time of the caller's clock in whole published seconds, and nowMillis in published
// milliseconds.
func (c *caller) now() int64 { return time.Now().UnixNano()/int64(c.x.second) + c.ahead }
func (c *caller) nowMillis() int64 {
	return time.Now().UnixNano()/int64(c.x.second/1000) + 1000*c.ahead
}

// step is a place in a discipline where the driver can stop or crash a caller.
type step string

const (
	stepDrawn     step = "drawn"     // the caller has a value that another may have, too
	stepSet       step = "set"       // SETNX has set the lock, EXPIRE has not been sent
	stepTried     step = "tried"     // SETNX has not set the lock, GET has not been sent
	stepLocked    step = "locked"    // the caller has the lock
	stepRead      step = "read"      // it has read the list, and is about to write it
	stepWrote     step = "wrote"     // it has written the list
	stepGiving    step = "giving"    // before it releases the lock
	stepGave      step = "gave"      // its release has freed the lock
	stepLooking   step = "looking"   // before it asks how many seconds its lock has left
	stepChecked   step = "checked"   // before it deletes the lock, after the check that it may
	stepExpired   step = "expired"   // before it overwrites a lock whose time is past, or that has just gone
	stepOverwrote step = "overwrote" // after that, before it checks whether it has the lock
)

// lockSteps are the steps of every discipline with a lock. keptSteps are those of disciplines whose release may
// not free the lock.
var (
	lockSteps = []step{stepLocked, stepRead, stepWrote, stepGiving, stepGave}
	keptSteps = lockSteps[:4]
)

// with returns lockSteps and more.
func with(more ...step) []step { return append(more, lockSteps...) }

// at marks a step between a discipline's commands. It does not return if the caller crashes here.
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
	switch {
	case s != c.strikeAt:
	case c.dies:
		c.crashLocked()
	default: // waits until the driver continues it
		c.strikeAt, c.held = "", true
		x.struckLocked(c)
		c.record(anomaly.Event{Kind: anomaly.Paused})
		for c.held && !c.dead {
			x.changed.Wait()
		}
		c.record(anomaly.Event{Kind: anomaly.Resumed})
	}
	return !c.dead
}

// die ends a caller whose published code fails.
func (c *caller) die() {
	c.x.mu.Lock()
	c.crashLocked()
	c.x.mu.Unlock()
	runtime.Goexit()
}

// crashLocked ends a caller and its process at once.
func (c *caller) crashLocked() {
	c.record(anomaly.Event{Kind: anomaly.Crashed})
	c.dead = true
	c.process.die()
	if c.cancel != nil {
		c.cancel()
	}
	c.x.struckLocked(c)
}
