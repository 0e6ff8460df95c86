package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// sameNumbers is a source that gives every caller the same number, as a real one does
// now and then.
type sameNumbers struct{}

func (sameNumbers) Uint64() uint64 { return 0x9e3779b97f4a7c15 }

// drawAlike lets callers draw the same values from now on.
func drawAlike(callers ...*caller) {
	now := time.Now()
	for _, c := range callers {
		c.random, c.drawsAt = rand.New(sameNumbers{}), now
	}
}

// lateBy is how many published seconds the lock has left at a late release. Redis says 0
// below half a second.
const lateBy = 0.4

// playLate stops the victim in its release until its lock has little time left.
func playLate(ctx context.Context, t trio) {
	t.strike(ctx, t.victim, stepLooking, hold)
	t.until(ctx, t.observer.timeLeft()-t.seconds(lateBy), t.victim.ended)
	t.resume(ctx, t.victim)
	t.come(ctx, t.joins, t.leaves)
}

// playFailover stops the victim between read and write, and takes its lock out of Redis,
// as a failover to a replica does that has not heard of it.
func playFailover(ctx context.Context, t trio) {
	before, err := t.observer.fences(ctx)
	if err == nil {
		t.strike(ctx, t.victim, stepRead, hold)
		err = t.observer.failOver(ctx, before)
	}
	if err != nil {
		t.fail(err)
		t.letGo(t.victim)
		return
	}
	t.others(ctx)
}

// playSameToken lets two callers draw the same value. The first is stopped until its
// lock has expired and the second has the lock. Then the first releases the lock, which
// has its value.
func playSameToken(ctx context.Context, t trio) {
	drawAlike(t.victim, t.joins)
	if t.d.has(stepOverwrote) {
		t.overwriteAlike(ctx)
		return
	}
	t.strike(ctx, t.victim, stepGiving, hold)
	t.others(ctx)
}

// overwriteAlike is for those whose value only shows who was the last to take over a
// lock. A holder dies, and the two with the same number both overwrite its lock before
// either looks.
func (t trio) overwriteAlike(ctx context.Context) {
	if t.d.has(stepSet) {
		t.leaves.plan[stepSet] = crash
	}
	t.strike(ctx, t.leaves, stepRead, crash)
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

// playJustGone frees a lock between a waiter's SETNX, which fails, and its GET, which
// finds nothing. Before the waiter acts on that, a third caller takes the lock.
func playJustGone(ctx context.Context, t trio) {
	t.strike(ctx, t.victim, stepGiving, hold)
	t.strike(ctx, t.joins, stepTried, hold)
	t.resume(ctx, t.victim)
	t.resume(ctx, t.joins, stepExpired)
	t.strike(ctx, t.leaves, stepRead, hold)
	t.resume(ctx, t.joins)
	t.letGo(t.leaves)
}

// playTakeover lets a holder die, without an expiry on its lock if that is possible. Two
// others find its time past, or no lock. Both overwrite the lock, and each finds its own value in it, because the first
// looks before the second writes.
func playTakeover(ctx context.Context, t trio) {
	dies := stepSet
	if !t.d.has(stepSet) {
		dies = stepLocked
	}
	t.strike(ctx, t.victim, dies, crash)
	t.bothExpire(ctx, t.joins, t.leaves)
	t.resume(ctx, t.joins, stepRead)
	t.resume(ctx, t.leaves)
	t.letGo(t.joins)
}

// playClock gives a caller a clock that is ahead by more than the TTL. While a live
// holder is between read and write, that caller finds the holder's time past, and takes
// over.
func playClock(ctx context.Context, t trio) {
	t.strike(ctx, t.victim, stepRead, hold)
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

// playContention lets many callers join and leave over and over. It uses the published
// times, because nothing has to expire, and no observer, so that the rate is that of the
// discipline.
func playContention(ctx context.Context, x *cell) error {
	for i := range manyProcesses {
		p, err := newProcess(x, fmt.Sprint(i+1), nil)
		if err != nil {
			return err
		}
		x.processes = append(x.processes, p)
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
