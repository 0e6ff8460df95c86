package lab

import (
	"context"
	"math/rand/v2"
)

// sameNumbers is a source that gives everybody the same number, as the real one
// does now and then.
type sameNumbers struct{}

func (sameNumbers) Uint64() uint64 { return 0x9e3779b97f4a7c15 }

// playSameToken lets two callers draw the same number. The first is stopped until
// its lock has expired and the second has taken it; then it gives back what it
// takes for its own.
func playSameToken(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	t.victim.random, t.joins.random = rand.New(sameNumbers{}), rand.New(sameNumbers{})
	t.victim.plan[stepGiving] = hold
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)
	x.others(ctx, t)
	return nil
}

// playJustGone lets a lock be given back when a waiter's SETNX has failed and its
// GET is on its way. The GET finds nothing; before the waiter does anything about
// it, a third takes the lock.
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
