package lab

import (
	"context"
	"time"
)

// fault is what happens to a caller, at a named step: a column of the matrix.
type fault struct {
	name  string
	head  [2]string // over its column
	about string
	needs []step // without which the fault cannot happen
	// losesReply says that clients are to notice soon that a reply stays away.
	losesReply bool
	// play runs the callers of a cell, and strikes. It returns when all that it
	// started has been let go.
	play func(ctx context.Context, x *cell) error
}

// The names of the faults.
const (
	noFault      = "none"
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
	sameToken    = "same-token"
	justGone     = "just-gone"
	takeoverRace = "takeover"
	clockAhead   = "clock"
	contention   = "contention"
)

// faults are in the order of their columns.
var faults = []*fault{
	{name: noFault, head: [2]string{"no", "fault"}, about: "three callers, and nothing happens", play: playAll},
	{name: pauseSet, head: [2]string{"pause", "setnx"}, about: "the holder is stopped between SETNX and EXPIRE until another has the lock, or has given up",
		needs: []step{stepSet}, play: playPauseSet},
	{name: pauseWrite, head: [2]string{"pause", "write"}, about: "the holder is stopped past the TTL between read and write",
		needs: []step{stepRead}, play: playPause(stepRead)},
	{name: pauseGiving, head: [2]string{"pause", "free"}, about: "the holder is stopped past the TTL between write and release",
		needs: []step{stepGiving}, play: playPause(stepGiving)},
	{name: pauseChecked, head: [2]string{"pause", "check"}, about: "the holder is stopped past the TTL in its release, between the check and the DEL",
		needs: []step{stepChecked}, play: playPause(stepChecked)},
	{name: crashSet, head: [2]string{"crash", "setnx"}, about: "the holder dies between SETNX and EXPIRE",
		needs: []step{stepSet}, play: playCrash(stepSet)},
	{name: crashLocked, head: [2]string{"crash", "lock"}, about: "the holder dies as soon as it has the lock",
		needs: []step{stepLocked}, play: playCrash(stepLocked)},
	{name: crashRead, head: [2]string{"crash", "read"}, about: "the holder dies between read and write",
		needs: []step{stepRead}, play: playCrash(stepRead)},
	{name: crashWrote, head: [2]string{"crash", "write"}, about: "the holder dies between write and release",
		needs: []step{stepWrote}, play: playCrash(stepWrote)},
	{name: loseLock, head: [2]string{"lost", "lock"}, about: "the reply of the command that took the lock is lost",
		needs: []step{stepLocked}, losesReply: true, play: playLoss(func(e effect) bool { return e.took })},
	{name: loseWrite, head: [2]string{"lost", "write"}, about: "the reply of the write is lost",
		needs: []step{stepWrote}, losesReply: true, play: playLoss(func(e effect) bool { return e.stored })},
	{name: loseRelease, head: [2]string{"lost", "free"}, about: "the reply of the release is lost",
		needs: []step{stepGave}, losesReply: true, play: playLoss(func(e effect) bool { return e.gave })},
	{name: sameToken, head: [2]string{"same", "token"}, about: "two callers draw the same random number, and the holder is stopped past the TTL between write and release",
		needs: []step{stepDrawn}, play: playSameToken},
	{name: justGone, head: [2]string{"just", "gone"}, about: "the lock goes between a waiter's SETNX and its GET, and a third takes it; nothing fails",
		needs: []step{stepTried, stepExpired}, play: playJustGone},
	{name: takeoverRace, head: [2]string{"take", "over"}, about: "two callers find the time of a dead holder past, and take over one after the other",
		needs: []step{stepSet, stepExpired}, play: playTakeover},
	{name: clockAhead, head: [2]string{"clock", "ahead"}, about: "a caller's clock is ahead by more than the TTL",
		needs: []step{stepExpired}, play: playClock},
	{name: contention, head: [2]string{"heavy", "load"}, about: "many callers in a few processes join and leave, and nothing else happens", play: playContention},
}

// trio is the callers of a fault's scenario: one that meets it, one that joins
// and one that leaves.
type trio struct{ victim, joins, leaves *caller }

func newTrio(x *cell) (t trio, err error) {
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

// playPause stops the victim at a step until its lock has expired and the next
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
		x.others(ctx, t)
		return nil
	}
}

// playPauseSet stops the victim between SETNX and EXPIRE until the next has got
// past it or has given up. As long as the pause lasts, the lock has no expiry.
func playPauseSet(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	t.victim.plan[stepSet] = hold
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)
	x.othersWithin(ctx, 2*x.patience, t)
	return nil
}

// playLoss loses the reply to the victim's request that has such an effect.
func playLoss(what func(effect) bool) func(context.Context, *cell) error {
	return func(ctx context.Context, x *cell) error {
		t, err := newTrio(x)
		if err != nil {
			return err
		}
		t.victim.process.wire.lose(what)
		x.start(ctx, t.victim)
		x.until(ctx, x.patience, func() bool { return t.victim.lost || t.victim.done })
		x.others(ctx, t)
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

// For how many TTLs a victim is stopped if nobody gets past it, and for how many
// published seconds at least.
const (
	pauseTTLs    = 1.5
	pauseSeconds = 5
)

// others lets the other two come while the victim is in trouble: one gets as far
// as it can and stands before its write, so that it holds the lock if there is
// one to be had; the victim goes on; the third comes; and then the first of them
// writes what it has made of what it read.
func (x *cell) others(ctx context.Context, t trio) {
	x.othersWithin(ctx, x.seconds(max(pauseTTLs*x.d.ttl, pauseSeconds)), t)
}

// othersWithin is others, with a victim that is stopped for d if nobody gets past it.
func (x *cell) othersWithin(ctx context.Context, d time.Duration, t trio) {
	t.joins.plan[stepRead] = hold
	x.start(ctx, t.joins)
	x.until(ctx, d, t.joins.stopped)
	x.letGo(t.victim)
	x.until(ctx, x.patience, t.victim.settled)
	x.start(ctx, t.leaves)
	x.until(ctx, x.patience, t.leaves.settled)
	x.letGo(t.joins)
}

// come lets callers ask one after the other, as soon as the one before has ended
// or has to wait. So no two race, even without a lock.
func (x *cell) come(ctx context.Context, callers ...*caller) {
	for _, c := range callers {
		x.start(ctx, c)
		x.until(ctx, x.patience, c.settled)
	}
}

// stopped reports whether the driver has stopped the caller, or it has ended;
// x.mu is held.
func (c *caller) stopped() bool { return c.held || c.dead || c.done }

// settled reports whether the caller has ended, or found that it has to wait;
// x.mu is held.
func (c *caller) settled() bool { return c.waited || c.dead || c.done }
