package lab

import (
	"context"
	"time"
)

// fault is what happens to a caller at a named step. It is a column of the matrix.
type fault struct {
	name  string // two words, which stand over its column
	about string
	needs []step // steps that the fault needs
	// losesReply makes clients notice soon that a reply is missing.
	losesReply bool
	// play runs the callers of a cell, and strikes. It returns when no caller is
	// stopped any more.
	play func(ctx context.Context, x *cell) error
}

// The names of the faults.
const (
	noFault      = "no-fault"
	pauseSet     = "pause-setnx"
	pauseWrite   = "pause-write"
	pauseGiving  = "pause-release"
	pauseChecked = "pause-check"
	crashSet     = "crash-setnx"
	crashLocked  = "crash-lock"
	crashRead    = "crash-read"
	crashWrote   = "crash-write"
	loseLock     = "lost-lock"
	loseWrite    = "lost-write"
	loseRelease  = "lost-release"
	lateRelease  = "late-release"
	sameToken    = "same-token"
	justGone     = "just-gone"
	takeOver     = "take-over"
	clockAhead   = "clock-ahead"
	failOver     = "fail-over"
	heavyLoad    = "heavy-load"
)

// faults are in the order of their columns.
var faults = []*fault{
	{name: noFault, about: "three callers, and no fault", play: playAll},
	{name: pauseSet, about: "the holder is stopped between SETNX and EXPIRE until another caller has the lock or has given up",
		needs: []step{stepSet}, play: playPauseSet},
	{name: pauseWrite, about: "the holder is stopped past the TTL between read and write",
		needs: []step{stepRead}, play: playPause(stepRead)},
	{name: pauseGiving, about: "the holder is stopped past the TTL between write and release",
		needs: []step{stepGiving}, play: playPause(stepGiving)},
	{name: pauseChecked, about: "the holder is stopped past the TTL in its release, between the check and the DEL",
		needs: []step{stepChecked}, play: playPause(stepChecked)},
	{name: crashSet, about: "the holder dies between SETNX and EXPIRE",
		needs: []step{stepSet}, play: playCrash(stepSet)},
	{name: crashLocked, about: "the holder dies as soon as it has the lock",
		needs: []step{stepLocked}, play: playCrash(stepLocked)},
	{name: crashRead, about: "the holder dies between read and write",
		needs: []step{stepRead}, play: playCrash(stepRead)},
	{name: crashWrote, about: "the holder dies between write and release",
		needs: []step{stepWrote}, play: playCrash(stepWrote)},
	{name: loseLock, about: "the reply of the command that took the lock is lost",
		needs: []step{stepLocked}, losesReply: true, play: playLoss(func(e effect) bool { return e.took })},
	{name: loseWrite, about: "the reply of the write is lost",
		needs: []step{stepWrote}, losesReply: true, play: playLoss(func(e effect) bool { return e.stored })},
	{name: loseRelease, about: "the reply of the release is lost",
		needs: []step{stepGave}, losesReply: true, play: playLoss(func(e effect) bool { return e.gave })},
	{name: lateRelease, about: "the holder releases when its lock has less than half a second left",
		needs: []step{stepLooking}, play: playLate},
	{name: sameToken, about: "two callers draw the same value: a random number, or uniqid in the same microsecond",
		needs: []step{stepDrawn}, play: playSameToken},
	{name: justGone, about: "nothing fails; a lock is freed between a waiter's SETNX and its GET, and a third caller takes it",
		needs: []step{stepTried, stepExpired}, play: playJustGone},
	{name: takeOver, about: "two callers find that a dead holder's time is over, and take its lock one after the other",
		needs: []step{stepExpired}, play: playTakeover},
	{name: clockAhead, about: "a caller's clock is ahead by more than the TTL",
		needs: []step{stepExpired}, play: playClock},
	{name: failOver, about: "Redis fails over while the holder is between read and write, and the lock, which was not replicated, is gone",
		needs: []step{stepLocked}, play: playFailover},
	{name: heavyLoad, about: "many callers in a few processes join and leave, without a fault", play: playContention},
}

// trio is the callers of a fault's scenario: one meets it, one joins and one leaves.
type trio struct {
	x                     *cell
	victim, joins, leaves *caller
}

func newTrio(x *cell) (t trio, err error) {
	t.x = x
	if t.victim, err = x.caller(victimUser, false); err != nil {
		return t, err
	}
	if t.joins, err = x.caller(joinsUser, false); err != nil {
		return t, err
	}
	t.leaves, err = x.caller(leavesUser, true)
	return t, err
}

func playAll(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	x.come(ctx, t.victim, t.joins, t.leaves)
	return nil
}

// playPause stops the victim at a step until its lock has expired and the next caller
// has read the list.
func playPause(s step) func(context.Context, *cell) error {
	return func(ctx context.Context, x *cell) error {
		t, err := newTrio(x)
		if err != nil {
			return err
		}
		t.victim.plan[s] = hold
		x.start(ctx, t.victim)
		x.until(ctx, x.patience, t.victim.stopped)
		t.others(ctx)
		return nil
	}
}

// playPauseSet stops the victim between SETNX and EXPIRE until the next caller has the
// lock or has given up. As long as the pause lasts, the lock has no expiry.
func playPauseSet(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	t.victim.plan[stepSet] = hold
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)
	t.othersWithin(ctx, 2*x.patience)
	return nil
}

// playLoss loses the reply to the victim's first request with that effect.
func playLoss(has func(effect) bool) func(context.Context, *cell) error {
	return func(ctx context.Context, x *cell) error {
		t, err := newTrio(x)
		if err != nil {
			return err
		}
		t.victim.process.wire.lose(has)
		x.start(ctx, t.victim)
		x.until(ctx, x.patience, func() bool { return t.victim.lost || t.victim.done })
		t.others(ctx)
		return nil
	}
}

// playCrash lets the victim die at a step. Then the others come.
func playCrash(s step) func(context.Context, *cell) error {
	return func(ctx context.Context, x *cell) error {
		t, err := newTrio(x)
		if err != nil {
			return err
		}
		t.victim.plan[s] = crash
		x.start(ctx, t.victim)
		x.until(ctx, x.patience, t.victim.stopped)
		x.come(ctx, t.joins, t.leaves)
		return nil
	}
}

// How many TTLs, and at least how many published seconds, a victim is stopped if nobody
// gets past it.
const (
	pauseTTLs    = 1.5
	pauseSeconds = 5
)

// others lets the other two come while the victim is in trouble. The first gets as far
// as it can and stops before its write, so that it holds the lock if anybody can. Then
// the victim continues, the third comes, and the first writes the list that it has made.
func (t trio) others(ctx context.Context) {
	t.othersWithin(ctx, t.x.seconds(max(pauseTTLs*t.x.d.ttl, pauseSeconds)))
}

// othersWithin is others, with a victim that is stopped for d at most.
func (t trio) othersWithin(ctx context.Context, d time.Duration) {
	x := t.x
	t.joins.plan[stepRead] = hold
	x.start(ctx, t.joins)
	x.until(ctx, d, t.joins.stopped)
	x.letGo(t.victim)
	x.until(ctx, x.patience, t.victim.idle)
	x.start(ctx, t.leaves)
	x.until(ctx, x.patience, t.leaves.idle)
	x.letGo(t.joins)
}

// come starts callers one after the other, each as soon as the one before has ended or
// waits. So no two race, even without a lock.
func (x *cell) come(ctx context.Context, callers ...*caller) {
	for _, c := range callers {
		x.start(ctx, c)
		x.until(ctx, x.patience, c.idle)
	}
}

// stopped reports whether the driver has stopped the caller, or the caller has ended.
// The cell's mu is held.
func (c *caller) stopped() bool { return c.held || c.dead || c.done }

// idle reports whether the caller has ended, or found the lock taken. The cell's mu is
// held.
func (c *caller) idle() bool { return c.waited || c.dead || c.done }

// lateBy is how many published seconds the lock has left at a late release. Redis says 0
// below half a second.
const lateBy = 0.4

// playLate stops the victim in its release until its lock has little time left.
func playLate(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	t.victim.plan[stepLooking] = hold
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)
	x.until(ctx, x.observer.timeLeft()-x.seconds(lateBy), func() bool { return t.victim.done })
	x.letGo(t.victim)
	x.until(ctx, x.patience, func() bool { return t.victim.done })
	x.come(ctx, t.joins, t.leaves)
	return nil
}

// playFailover stops the victim between read and write, and takes its lock out of Redis,
// as a failover to a replica does that has not heard of it.
func playFailover(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	before, err := x.observer.fences(ctx)
	if err != nil {
		return err
	}
	t.victim.plan[stepRead] = hold
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)
	if err := x.observer.failOver(ctx, before); err != nil {
		return err
	}
	t.others(ctx)
	return nil
}
