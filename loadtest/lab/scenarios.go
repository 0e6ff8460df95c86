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

// playSameToken lets two callers draw the same value. The first is stopped until its
// lock has expired and the second has the lock. Then the first releases the lock, which
// has its value.
func playSameToken(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	drawAlike(t.victim, t.joins)
	if x.d.has(stepOverwrote) {
		return t.overwriteAlike(ctx)
	}
	t.victim.plan[stepGiving] = hold
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)
	t.others(ctx)
	return nil
}

// overwriteAlike is for those whose value only shows who was the last to take over a
// lock. A holder dies, and the two with the same number both overwrite its lock before
// either looks.
func (t trio) overwriteAlike(ctx context.Context) error {
	x := t.x
	t.leaves.plan[stepRead] = crash
	if x.d.has(stepSet) {
		t.leaves.plan[stepSet] = crash
	}
	x.start(ctx, t.leaves)
	x.until(ctx, x.patience, t.leaves.stopped)
	both := func() bool { return t.victim.stopped() && t.joins.stopped() }
	t.victim.plan[stepExpired], t.joins.plan[stepExpired] = hold, hold
	x.start(ctx, t.victim)
	x.start(ctx, t.joins)
	x.until(ctx, x.patience, both)
	for _, c := range []*caller{t.victim, t.joins} {
		x.letGo(c, stepOverwrote)
		x.until(ctx, x.patience, c.stopped)
	}
	x.letGo(t.victim, stepRead)
	x.until(ctx, x.patience, t.victim.stopped)
	x.letGo(t.joins)
	x.until(ctx, x.patience, func() bool { return t.joins.done })
	x.letGo(t.victim)
	return nil
}

// playJustGone frees a lock between a waiter's SETNX, which fails, and its GET, which
// finds nothing. Before the waiter acts on that, a third caller takes the lock.
func playJustGone(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	t.victim.plan[stepGiving] = hold
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)

	t.joins.plan[stepTried] = hold
	x.start(ctx, t.joins)
	x.until(ctx, x.patience, t.joins.stopped)
	x.letGo(t.victim)
	x.until(ctx, x.patience, func() bool { return t.victim.done })
	x.letGo(t.joins, stepExpired)
	x.until(ctx, x.patience, t.joins.stopped)

	t.leaves.plan[stepRead] = hold
	x.start(ctx, t.leaves)
	x.until(ctx, x.patience, t.leaves.stopped)
	x.letGo(t.joins)
	x.until(ctx, x.patience, func() bool { return t.joins.done })
	x.letGo(t.leaves)
	return nil
}

// playTakeover lets a holder die, without an expiry on its lock if that is possible. Two
// others find its time past, or no lock. Both overwrite the lock, and each finds its own value in it, because the first
// looks before the second writes.
func playTakeover(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	dies := stepSet
	if !x.d.has(stepSet) {
		dies = stepLocked
	}
	t.victim.plan[dies] = crash
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)

	t.joins.plan[stepExpired], t.leaves.plan[stepExpired] = hold, hold
	x.start(ctx, t.joins)
	x.start(ctx, t.leaves)
	x.until(ctx, x.patience, func() bool { return t.joins.stopped() && t.leaves.stopped() })

	x.letGo(t.joins, stepRead)
	x.until(ctx, x.patience, t.joins.stopped)
	x.letGo(t.leaves)
	x.until(ctx, x.patience, func() bool { return t.leaves.done })
	x.letGo(t.joins)
	return nil
}

// playClock gives a caller a clock that is ahead by more than the TTL. While a live
// holder is between read and write, that caller finds the holder's time past, and takes
// over.
func playClock(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	t.victim.plan[stepRead] = hold
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)

	t.joins.ahead = int64(x.d.ttl) + 2
	x.start(ctx, t.joins)
	x.until(ctx, x.patience, func() bool { return t.joins.done })
	x.letGo(t.victim)
	x.until(ctx, x.patience, func() bool { return t.victim.done })
	x.start(ctx, t.leaves)
	return nil
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
