package lab

import (
	"context"
	"fmt"
	"time"
)

// fault is a disturbance of a caller at a named step. It is a column of the matrix.
type fault struct {
	name  string // two words, for the head of its column
	about string
	needs []step                       // steps that a discipline needs for it
	loses func(effect) bool            // selects the victim's request whose reply is lost; may be nil
	play  func(context.Context, *cell) // what the driver does with three callers
}

// The faults that the driver knows by name.
const (
	pauseSet  = "pause-setnx"
	heavyLoad = "heavy-load"
)

// faults are in the order of their columns.
var faults = []*fault{
	{name: "no-fault", about: "three callers, and no fault", play: playAll},
	{name: pauseSet, needs: []step{stepSet}, play: playPause,
		about: "the holder is stopped between SETNX and EXPIRE until another caller has the lock or has given up"},
	{name: "pause-write", needs: []step{stepRead}, play: playPause,
		about: "the holder is stopped past the TTL between read and write"},
	{name: "pause-release", needs: []step{stepGiving}, play: playPause,
		about: "the holder is stopped past the TTL between write and release"},
	{name: "pause-check", needs: []step{stepChecked}, play: playPause,
		about: "the holder is stopped past the TTL in its release, between the check and the DEL"},
	{name: "crash-setnx", needs: []step{stepSet}, play: playCrash, about: "the holder dies between SETNX and EXPIRE"},
	{name: "crash-lock", needs: []step{stepLocked}, play: playCrash,
		about: "the holder dies as soon as it has the lock"},
	{name: "crash-read", needs: []step{stepRead}, play: playCrash, about: "the holder dies between read and write"},
	{name: "crash-write", needs: []step{stepWrote}, play: playCrash,
		about: "the holder dies between write and release"},
	{name: "lost-lock", needs: []step{stepLocked}, play: playLoss, loses: func(e effect) bool { return e.took },
		about: "the reply of the command that took the lock is lost, and the client sends it again"},
	{name: "lost-write", needs: []step{stepWrote}, play: playLoss, loses: func(e effect) bool { return e.stored },
		about: "the same with the reply of the write"},
	{name: "lost-release", needs: []step{stepGave}, play: playLoss, loses: func(e effect) bool { return e.gave },
		about: "the same with the reply of the release"},
	{name: "late-release", needs: []step{stepLooking}, play: playLate,
		about: "the holder releases when its lock has less than half a second left"},
	{name: "same-token", needs: []step{stepDrawn}, play: playSameToken,
		about: "two callers draw the same value, as two of 1,000 do with 5.4 % (timestamp's number), 39.3 % (uniqid, within a second), " +
			"99.3 % (set-rand-lua's number)"},
	{name: "just-gone", needs: []step{stepTried, stepExpired}, play: playJustGone,
		about: "nothing fails; a lock is freed between a waiter's SETNX and its GET, and a third caller takes it"},
	{name: "take-over", needs: []step{stepExpired}, play: playTakeover,
		about: "two callers find that a dead holder's time is over, and take its lock one after the other"},
	{name: "clock-ahead", needs: []step{stepExpired}, play: playClock,
		about: "a caller's clock is ahead by more than the TTL"},
	{name: "fail-over", needs: []step{stepLocked}, play: playFailover,
		about: "Redis fails over while the holder is between read and write, and the lock, which was not replicated, is gone"},
	{name: heavyLoad, about: "many callers in a few processes join and leave, without a fault"},
}

// playFault runs the callers of the cell, and strikes: the victim meets the fault, another one joins, and one
// leaves. It returns when no caller is stopped any more.
func (x *cell) playFault(ctx context.Context) error {
	x.victim, x.joins, x.leaves = &caller{user: victimUser}, &caller{user: joinsUser},
		&caller{user: leavesUser, leave: true}
	if x.f.name == heavyLoad {
		return x.playHeavyLoad(ctx)
	}
	err := x.addTo(x.victim, x.joins, x.leaves)
	if err == nil {
		x.f.play(ctx, x)
	}
	return err
}

func playAll(ctx context.Context, x *cell) { x.come(ctx, x.victim, x.joins, x.leaves) }

func playPause(ctx context.Context, x *cell) {
	x.stop(ctx, x.victim, x.f.needs[0])
	others(ctx, x)
}

func playCrash(ctx context.Context, x *cell) {
	x.crash(ctx, x.victim, x.f.needs[0])
	x.come(ctx, x.joins, x.leaves)
}

func playLoss(ctx context.Context, x *cell) {
	x.victim.process.lose(x.f.loses)
	x.goOn(ctx, x.victim, "")
	x.until(ctx, x.patience, func() bool { return x.struck || x.victim.done })
	others(ctx, x)
}

// others sends the other two callers while the victim is in trouble. The first goes as far as it can and stops
// before its write, so it holds the lock if anybody can. Then the victim continues, the third comes, and the
// first writes its list. If nobody gets past the victim, it is stopped for 1.5 TTLs, and 5 published seconds at
// least; between SETNX and EXPIRE, where the lock has no expiry yet, until the first has given up.
func others(ctx context.Context, x *cell) {
	pause := x.seconds(max(1.5*x.d.ttl, 5))
	if x.f.name == pauseSet {
		pause = 2 * x.patience
	}
	x.goOn(ctx, x.joins, stepRead)
	x.until(ctx, pause, x.joins.stopped)
	x.come(ctx, x.victim, x.leaves, x.joins)
}

// playLate stops the victim in its release until its lock has little time left. Redis says 0 below half a second.
func playLate(ctx context.Context, x *cell) {
	x.stop(ctx, x.victim, stepLooking)
	x.until(ctx, x.observer.last().expires-x.now()-x.seconds(0.4), x.victim.ended)
	x.come(ctx, x.victim, x.joins, x.leaves)
}

// playFailover stops the victim between read and write, and removes its lock from Redis, like a failover to a
// replica that does not have it.
func playFailover(ctx context.Context, x *cell) {
	if err := x.observer.failOver(ctx, func() { x.stop(ctx, x.victim, stepRead) }); err != nil {
		x.fail(err)
	}
	others(ctx, x)
}

// playSameToken lets two callers draw the same value. The first is stopped until its lock has expired and the
// second has the lock. Then the first releases the lock, which has its value. If a value only shows who took
// over a lock last, a holder dies, and both callers overwrite its lock before either checks it.
func playSameToken(ctx context.Context, x *cell) {
	x.victim.drawsAt = time.Now()
	x.joins.drawsAt = x.victim.drawsAt
	if !x.d.has(stepOverwrote) {
		x.stop(ctx, x.victim, stepGiving)
		others(ctx, x)
		return
	}
	bothExpire(ctx, x, x.leaves, x.victim, x.joins)
	x.stop(ctx, x.victim, stepOverwrote)
	x.stop(ctx, x.joins, stepOverwrote)
	x.stop(ctx, x.victim, stepRead)
	x.stop(ctx, x.joins, "")
	x.come(ctx, x.victim)
}

// bothExpire makes a holder die, without an expiry on its lock if possible, and stops two other callers when
// they find its time past, or no lock.
func bothExpire(ctx context.Context, x *cell, dies, a, b *caller) {
	if x.d.has(stepSet) {
		x.crash(ctx, dies, stepSet)
	} else {
		x.crash(ctx, dies, stepLocked)
	}
	x.goOn(ctx, a, stepExpired)
	x.goOn(ctx, b, stepExpired)
	x.until(ctx, x.patience, func() bool { return a.stopped() && b.stopped() })
}

// playJustGone frees a lock between a waiter's SETNX, which fails, and its GET, which finds nothing. Before the
// waiter acts on that, a third caller acquires the lock.
func playJustGone(ctx context.Context, x *cell) {
	x.stop(ctx, x.victim, stepGiving)
	x.stop(ctx, x.joins, stepTried)
	x.stop(ctx, x.victim, "")
	x.stop(ctx, x.joins, stepExpired)
	x.stop(ctx, x.leaves, stepRead)
	x.stop(ctx, x.joins, "")
	x.come(ctx, x.leaves)
}

// playTakeover lets two callers overwrite a dead holder's lock. Each finds its own value in it, because the
// first checks before the second writes.
func playTakeover(ctx context.Context, x *cell) {
	bothExpire(ctx, x, x.victim, x.joins, x.leaves)
	x.stop(ctx, x.joins, stepRead)
	x.stop(ctx, x.leaves, "")
	x.come(ctx, x.joins)
}

// playClock gives a caller a clock that is fast by more than the TTL. While a live holder is between read and
// write, that caller finds the holder's time past, and takes over.
func playClock(ctx context.Context, x *cell) {
	x.stop(ctx, x.victim, stepRead)
	x.joins.ahead = int64(x.d.ttl) + 2
	x.stop(ctx, x.joins, "")
	x.stop(ctx, x.victim, "")
	x.come(ctx, x.leaves)
}

// The callers under heavy load, and the processes that many callers share.
const (
	manyCallers   = 32
	manyProcesses = 4
)

// playHeavyLoad makes many callers join and leave repeatedly. It uses the published times, because nothing has
// to expire.
func (x *cell) playHeavyLoad(ctx context.Context) error {
	callers := make([]*caller, manyCallers)
	for i := range callers {
		callers[i] = &caller{user: fmt.Sprintf("player-%02d", i+1)}
	}
	if err := x.addTo(callers...); err != nil {
		return err
	}
	x.ends = time.Now().Add(x.lab.cfg.Duration)
	for _, c := range callers {
		x.running.Go(func() {
			for time.Now().Before(x.ends) && ctx.Err() == nil {
				c.request(ctx)
				c.leave = !c.leave
			}
		})
	}
	return nil
}
