package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// fault is what happens to a caller at a named step. It is a column of the matrix.
type fault struct {
	name  string // two words, which stand over its column
	about string
	needs []step // that a discipline must have to meet it

	strike strike                      // what happens to the victim at the first of needs
	loses  func(effect) bool           // or the request of the victim whose reply is lost
	play   func(trio, context.Context) // or a scene of its own
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
	{name: noFault, about: "three callers, and no fault", play: trio.playAll},
	{name: pauseSet, needs: []step{stepSet}, strike: hold,
		about: "the holder is stopped between SETNX and EXPIRE until another caller has the lock or has given up"},
	{name: pauseWrite, needs: []step{stepRead}, strike: hold, about: "the holder is stopped past the TTL between read and write"},
	{name: pauseGiving, needs: []step{stepGiving}, strike: hold, about: "the holder is stopped past the TTL between write and release"},
	{name: pauseChecked, needs: []step{stepChecked}, strike: hold,
		about: "the holder is stopped past the TTL in its release, between the check and the DEL"},
	{name: crashSet, needs: []step{stepSet}, strike: crash, about: "the holder dies between SETNX and EXPIRE"},
	{name: crashLocked, needs: []step{stepLocked}, strike: crash, about: "the holder dies as soon as it has the lock"},
	{name: crashRead, needs: []step{stepRead}, strike: crash, about: "the holder dies between read and write"},
	{name: crashWrote, needs: []step{stepWrote}, strike: crash, about: "the holder dies between write and release"},
	{name: loseLock, needs: []step{stepLocked}, loses: func(e effect) bool { return e.took },
		about: "the reply of the command that took the lock is lost, and the client sends it again"},
	{name: loseWrite, needs: []step{stepWrote}, loses: func(e effect) bool { return e.stored }, about: "the same with the reply of the write"},
	{name: loseRelease, needs: []step{stepGave}, loses: func(e effect) bool { return e.gave }, about: "the same with the reply of the release"},
	{name: lateRelease, needs: []step{stepLooking}, play: trio.playLate,
		about: "the holder releases when its lock has less than half a second left"},
	{name: sameToken, needs: []step{stepDrawn}, play: trio.playSameToken,
		about: "two callers draw the same value, as two of 1,000 do with 5.4 % (timestamp's number), 39.3 % (uniqid, within a second), " +
			"99.3 % (set-rand-lua's number)"},
	{name: justGone, needs: []step{stepTried, stepExpired}, play: trio.playJustGone,
		about: "nothing fails; a lock is freed between a waiter's SETNX and its GET, and a third caller takes it"},
	{name: takeOver, needs: []step{stepExpired}, play: trio.playTakeover,
		about: "two callers find that a dead holder's time is over, and take its lock one after the other"},
	{name: clockAhead, needs: []step{stepExpired}, play: trio.playClock, about: "a caller's clock is ahead by more than the TTL"},
	{name: failOver, needs: []step{stepLocked}, play: trio.playFailover,
		about: "Redis fails over while the holder is between read and write, and the lock, which was not replicated, is gone"},
	{name: heavyLoad, about: "many callers in a few processes join and leave, without a fault"},
}

// trio is the callers of a fault: one meets it, one joins and one leaves.
type trio struct {
	*cell
	victim, joins, leaves *caller
}

// playFault runs the callers of the cell, and strikes. It returns when no caller is stopped any more.
func (x *cell) playFault(ctx context.Context) (err error) {
	if x.f.name == heavyLoad {
		return x.playHeavyLoad(ctx)
	}
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
	switch {
	case x.f.play != nil:
		x.f.play(t, ctx)
	case x.f.loses != nil:
		t.victim.process.wire.lose(x.f.loses)
		t.start(ctx, t.victim)
		t.until(ctx, t.patience, func() bool { return t.victim.lost || t.victim.done })
		t.others(ctx)
	default:
		t.strikeAt(ctx, t.victim, x.f.needs[0], x.f.strike)
		if x.f.strike == crash {
			t.come(ctx, t.joins, t.leaves)
		} else {
			t.others(ctx)
		}
	}
	return nil
}

// others lets the other two come while the victim is in trouble. The first gets as far as it can and stops before its write,
// so that it holds the lock if anybody can. Then the victim continues, the third comes, and the first writes the list that
// it has made. If nobody gets past the victim, it is stopped for 1.5 TTLs, and for 5 published seconds at least; between
// SETNX and EXPIRE, where the lock has no expiry as long as that lasts, until the first has given up.
func (t trio) others(ctx context.Context) {
	pause := t.seconds(max(1.5*t.d.ttl, 5))
	if t.f.name == pauseSet {
		pause = 2 * t.patience
	}
	t.joins.plan[stepRead] = hold
	t.start(ctx, t.joins)
	t.until(ctx, pause, t.joins.stopped)
	t.letGo(t.victim)
	t.until(ctx, t.patience, t.victim.idle)
	t.start(ctx, t.leaves)
	t.until(ctx, t.patience, t.leaves.idle)
	t.letGo(t.joins)
}

func (t trio) playAll(ctx context.Context) { t.come(ctx, t.victim, t.joins, t.leaves) }

// playLate stops the victim in its release until its lock has little time left. Redis says 0 below half a second.
func (t trio) playLate(ctx context.Context) {
	t.strikeAt(ctx, t.victim, stepLooking, hold)
	t.until(ctx, t.observer.timeLeft()-t.seconds(0.4), t.victim.ended)
	t.resume(ctx, t.victim)
	t.come(ctx, t.joins, t.leaves)
}

// playFailover stops the victim between read and write, and takes its lock out of Redis, as a failover to a replica does
// that has not heard of it.
func (t trio) playFailover(ctx context.Context) {
	before, err := t.observer.fences(ctx)
	if err == nil {
		t.strikeAt(ctx, t.victim, stepRead, hold)
		err = t.observer.failOver(ctx, before)
	}
	if err != nil {
		t.fail(err)
		t.letGo(t.victim)
		return
	}
	t.others(ctx)
}

// sameNumbers is a source that gives every caller the same number, as a real one does now and then.
type sameNumbers struct{}

func (sameNumbers) Uint64() uint64 { return 0x9e3779b97f4a7c15 }

// playSameToken lets two callers draw the same value. The first is stopped until its lock has expired and the second has the
// lock. Then the first releases the lock, which has its value. Where a value only shows who was the last to take over a
// lock, a holder dies, and the two both overwrite its lock before either looks.
func (t trio) playSameToken(ctx context.Context) {
	now := time.Now()
	for _, c := range []*caller{t.victim, t.joins} {
		c.random, c.drawsAt = rand.New(sameNumbers{}), now
	}
	if !t.d.has(stepOverwrote) {
		t.strikeAt(ctx, t.victim, stepGiving, hold)
		t.others(ctx)
		return
	}
	if t.d.has(stepSet) {
		t.leaves.plan[stepSet] = crash
	}
	t.strikeAt(ctx, t.leaves, stepRead, crash)
	t.bothExpire(ctx, t.victim, t.joins)
	t.resume(ctx, t.victim, stepOverwrote)
	t.resume(ctx, t.joins, stepOverwrote)
	t.resume(ctx, t.victim, stepRead)
	t.resume(ctx, t.joins)
	t.letGo(t.victim)
}

// bothExpire starts two callers, and stops both when they find a holder's time past.
func (t trio) bothExpire(ctx context.Context, a, b *caller) {
	a.plan[stepExpired], b.plan[stepExpired] = hold, hold
	t.start(ctx, a)
	t.start(ctx, b)
	t.until(ctx, t.patience, func() bool { return a.stopped() && b.stopped() })
}

// playJustGone frees a lock between a waiter's SETNX, which fails, and its GET, which finds nothing. Before the waiter acts on
// that, a third caller takes the lock.
func (t trio) playJustGone(ctx context.Context) {
	t.strikeAt(ctx, t.victim, stepGiving, hold)
	t.strikeAt(ctx, t.joins, stepTried, hold)
	t.resume(ctx, t.victim)
	t.resume(ctx, t.joins, stepExpired)
	t.strikeAt(ctx, t.leaves, stepRead, hold)
	t.resume(ctx, t.joins)
	t.letGo(t.leaves)
}

// playTakeover lets a holder die, without an expiry on its lock if that is possible. Two others find its time past, or no
// lock. Both overwrite the lock, and each finds its own value in it, because the first looks before the second writes.
func (t trio) playTakeover(ctx context.Context) {
	dies := stepSet
	if !t.d.has(stepSet) {
		dies = stepLocked
	}
	t.strikeAt(ctx, t.victim, dies, crash)
	t.bothExpire(ctx, t.joins, t.leaves)
	t.resume(ctx, t.joins, stepRead)
	t.resume(ctx, t.leaves)
	t.letGo(t.joins)
}

// playClock gives a caller a clock that is ahead by more than the TTL. While a live holder is between read and write, that
// caller finds the holder's time past, and takes over.
func (t trio) playClock(ctx context.Context) {
	t.strikeAt(ctx, t.victim, stepRead, hold)
	t.joins.ahead = int64(t.d.ttl) + 2
	t.start(ctx, t.joins)
	t.until(ctx, t.patience, t.joins.ended)
	t.resume(ctx, t.victim)
	t.start(ctx, t.leaves)
}

// The callers under heavy load, and the processes that they share.
const (
	manyCallers   = 32
	manyProcesses = 4
)

// share starts the processes that many callers share, without an observer, so that nothing delays them.
func (x *cell) share() error {
	for i := range manyProcesses {
		p, err := newProcess(x, fmt.Sprint(i+1), nil)
		if err != nil {
			return err
		}
		x.processes = append(x.processes, p)
	}
	return nil
}

// playHeavyLoad lets many callers join and leave over and over. It uses the published times, because nothing has to expire.
func (x *cell) playHeavyLoad(ctx context.Context) error {
	if err := x.share(); err != nil {
		return err
	}
	over, stop := context.WithTimeout(ctx, x.lab.cfg.Duration)
	defer stop()
	x.over = over.Done()
	for i := range manyCallers {
		c := x.callerIn(x.processes[i%manyProcesses], fmt.Sprintf("player-%02d", i+1), false)
		x.running.Go(func() {
			for over.Err() == nil {
				c.request(ctx)
				c.leave = !c.leave
			}
		})
	}
	x.running.Wait() // before over ends
	return nil
}
