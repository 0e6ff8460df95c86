package lab

import (
	"context"
	"strings"
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
	{name: noFault, about: "three callers, and no fault", play: trioPlay(playAll)},
	{name: pauseSet, about: "the holder is stopped between SETNX and EXPIRE until another caller has the lock or has given up",
		needs: []step{stepSet}, play: trioPlay(playPauseSet)},
	{name: pauseWrite, about: "the holder is stopped past the TTL between read and write",
		needs: []step{stepRead}, play: trioPlay(playPause(stepRead))},
	{name: pauseGiving, about: "the holder is stopped past the TTL between write and release",
		needs: []step{stepGiving}, play: trioPlay(playPause(stepGiving))},
	{name: pauseChecked, about: "the holder is stopped past the TTL in its release, between the check and the DEL",
		needs: []step{stepChecked}, play: trioPlay(playPause(stepChecked))},
	{name: crashSet, about: "the holder dies between SETNX and EXPIRE",
		needs: []step{stepSet}, play: trioPlay(playCrash(stepSet))},
	{name: crashLocked, about: "the holder dies as soon as it has the lock",
		needs: []step{stepLocked}, play: trioPlay(playCrash(stepLocked))},
	{name: crashRead, about: "the holder dies between read and write",
		needs: []step{stepRead}, play: trioPlay(playCrash(stepRead))},
	{name: crashWrote, about: "the holder dies between write and release",
		needs: []step{stepWrote}, play: trioPlay(playCrash(stepWrote))},
	{name: loseLock, about: "the reply of the command that took the lock is lost",
		needs: []step{stepLocked}, losesReply: true, play: trioPlay(playLoss(func(e effect) bool { return e.took }))},
	{name: loseWrite, about: "the reply of the write is lost",
		needs: []step{stepWrote}, losesReply: true, play: trioPlay(playLoss(func(e effect) bool { return e.stored }))},
	{name: loseRelease, about: "the reply of the release is lost",
		needs: []step{stepGave}, losesReply: true, play: trioPlay(playLoss(func(e effect) bool { return e.gave }))},
	{name: lateRelease, about: "the holder releases when its lock has less than half a second left",
		needs: []step{stepLooking}, play: trioPlay(playLate)},
	{name: sameToken, about: "two callers draw the same value, as two of 1,000 do with 5.4 % (timestamp's number), 39.3 % (uniqid, within a second), 99.3 % (set-rand-lua's number)",
		needs: []step{stepDrawn}, play: trioPlay(playSameToken)},
	{name: justGone, about: "nothing fails; a lock is freed between a waiter's SETNX and its GET, and a third caller takes it",
		needs: []step{stepTried, stepExpired}, play: trioPlay(playJustGone)},
	{name: takeOver, about: "two callers find that a dead holder's time is over, and take its lock one after the other",
		needs: []step{stepExpired}, play: trioPlay(playTakeover)},
	{name: clockAhead, about: "a caller's clock is ahead by more than the TTL",
		needs: []step{stepExpired}, play: trioPlay(playClock)},
	{name: failOver, about: "Redis fails over while the holder is between read and write, and the lock, which was not replicated, is gone",
		needs: []step{stepLocked}, play: trioPlay(playFailover)},
	{name: heavyLoad, about: "many callers in a few processes join and leave, without a fault", play: playContention},
}

// Head is the title of the fault's column on the page.
func (f *fault) Head() string { return strings.Replace(f.name, "-", " ", 1) }

// About explains the column on the page.
func (f *fault) About() string { return f.name + ": " + f.about }

// trio is the callers of a fault's scenario: one meets it, one joins and one leaves.
type trio struct {
	*cell
	victim, joins, leaves *caller
}

// trioPlay lets a scene play with three new callers.
func trioPlay(scene func(context.Context, trio)) func(context.Context, *cell) error {
	return func(ctx context.Context, x *cell) (err error) {
		t := trio{cell: x}
		if t.victim, err = x.caller(victimUser, false); err != nil {
			return err
		}
		if t.joins, err = x.caller(joinsUser, false); err != nil {
			return err
		}
		if t.leaves, err = x.caller(leavesUser, true); err != nil {
			return err
		}
		scene(ctx, t)
		return nil
	}
}

func playAll(ctx context.Context, t trio) { t.come(ctx, t.victim, t.joins, t.leaves) }

// playPause stops the victim at a step until its lock has expired and the next caller
// has read the list.
func playPause(s step) func(context.Context, trio) {
	return func(ctx context.Context, t trio) {
		t.strike(ctx, t.victim, s, hold)
		t.others(ctx)
	}
}

// playPauseSet stops the victim between SETNX and EXPIRE until the next caller has the
// lock or has given up. As long as the pause lasts, the lock has no expiry.
func playPauseSet(ctx context.Context, t trio) {
	t.strike(ctx, t.victim, stepSet, hold)
	t.othersWithin(ctx, 2*t.patience)
}

// playLoss loses the reply to the victim's first request with that effect.
func playLoss(has func(effect) bool) func(context.Context, trio) {
	return func(ctx context.Context, t trio) {
		t.victim.process.wire.lose(has)
		t.start(ctx, t.victim)
		t.until(ctx, t.patience, func() bool { return t.victim.lost || t.victim.done })
		t.others(ctx)
	}
}

// playCrash lets the victim die at a step. Then the others come.
func playCrash(s step) func(context.Context, trio) {
	return func(ctx context.Context, t trio) {
		t.strike(ctx, t.victim, s, crash)
		t.come(ctx, t.joins, t.leaves)
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
	t.othersWithin(ctx, t.seconds(max(pauseTTLs*t.d.ttl, pauseSeconds)))
}

// othersWithin is others, with a victim that is stopped for d at most.
func (t trio) othersWithin(ctx context.Context, d time.Duration) {
	t.joins.plan[stepRead] = hold
	t.start(ctx, t.joins)
	t.until(ctx, d, t.joins.stopped)
	t.letGo(t.victim)
	t.until(ctx, t.patience, t.victim.idle)
	t.start(ctx, t.leaves)
	t.until(ctx, t.patience, t.leaves.idle)
	t.letGo(t.joins)
}

// strike starts a caller, and waits until it is stopped at a step, or dies there.
func (x *cell) strike(ctx context.Context, c *caller, at step, how strike) {
	c.plan[at] = how
	x.start(ctx, c)
	x.until(ctx, x.patience, c.stopped)
}

// resume lets a caller continue, and waits until it is stopped at the step if one is given, or has ended.
func (x *cell) resume(ctx context.Context, c *caller, upTo ...step) {
	x.letGo(c, upTo...)
	if len(upTo) > 0 {
		x.until(ctx, x.patience, c.stopped)
	} else {
		x.until(ctx, x.patience, c.ended)
	}
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

// ended reports whether the caller got its answer, or died. The cell's mu is held.
func (c *caller) ended() bool { return c.done }

// idle reports whether the caller has ended, or found the lock taken. The cell's mu is
// held.
func (c *caller) idle() bool { return c.waited || c.dead || c.done }
