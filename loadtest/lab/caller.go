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

// spinPause is the pause between two attempts in the articles that spin. It is not scaled.
const spinPause = 5 * time.Millisecond

// caller asks to join or to leave on behalf of one player.
type caller struct {
	*process
	user    string
	leave   bool
	ahead   int64              // published seconds by which its clock is ahead
	value   string             // drawn for the lock
	end     string             // the last that it has set there with its clock
	drawsAt time.Time          // two with the same time draw the same; zero means now
	cancel  context.CancelFunc // of its request, once that has begun

	asked time.Time
	sent  bool // its write; an error after that leaves the outcome unknown

	// Guarded by x.mu.
	strikeAt step // where the driver stops it
	dies     bool // there
	held     bool // stopped at a step
	dead     bool // crashed
	done     bool // got its answer, or died
	waited   bool // found the lock taken
}

// The states of a caller that the driver waits for. The cell's mu is held.
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

// turnedAway records that the caller found the lock taken.
func (c *caller) turnedAway() {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if !c.waited {
		c.waited = true
		c.record(anomaly.Event{Kind: anomaly.Refused})
		c.x.changed.Broadcast()
	}
}

// pause sleeps between two attempts. It fails with errBusy when the player has lost patience, or the time is up.
func (c *caller) pause(ctx context.Context, d time.Duration) error {
	c.turnedAway()
	if x := c.x; time.Since(c.asked) > x.patience || !x.ends.IsZero() && time.Now().After(x.ends) {
		return errBusy
	}
	return sleep(ctx, d)
}

// sleep returns after d, or the cause of ctx if that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// now returns what the caller's clock shows, in whole published seconds, and nowMillis in published milliseconds.
func (c *caller) now() int64 { return time.Now().UnixNano()/int64(c.x.second) + c.ahead }
func (c *caller) nowMillis() int64 {
	return time.Now().UnixNano()/int64(c.x.second/1000) + 1000*c.ahead
}

// step is a place in a discipline where the driver can stop or crash a caller.
type step string

const (
	stepDrawn     step = "drawn"     // the caller has drawn a value that another may draw, too
	stepSet       step = "set"       // SETNX has set the lock, EXPIRE has not been sent
	stepTried     step = "tried"     // SETNX has not set the lock, GET has not been sent
	stepLocked    step = "locked"    // the caller has the lock
	stepRead      step = "read"      // it has read the list, and is about to write it
	stepWrote     step = "wrote"     // it has written the list
	stepGiving    step = "giving"    // it is about to release the lock
	stepGave      step = "gave"      // its release has freed the lock
	stepLooking   step = "looking"   // it is about to ask how many seconds its lock has left
	stepChecked   step = "checked"   // it is about to delete the lock after checking that it may
	stepExpired   step = "expired"   // it is about to overwrite a lock whose time is past, or that has just gone
	stepOverwrote step = "overwrote" // it has done so, and is about to look whether it has the lock
)

// lockSteps are the steps of every discipline with a lock, and keptSteps of those whose release need not free the lock.
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
	default: // until the driver lets it go on
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

// die ends a caller whose own code fails.
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
