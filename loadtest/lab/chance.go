package lab

import (
	"context"
	"math/rand/v2"
)

// sameNumbers is a source that gives every caller the same number, as a real one does
// now and then.
type sameNumbers struct{}

func (sameNumbers) Uint64() uint64 { return 0x9e3779b97f4a7c15 }

// playSameToken lets two callers draw the same number. The first is stopped until its
// lock has expired and the second has the lock. Then the first releases the lock, which
// has its number.
func playSameToken(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	t.victim.random, t.joins.random = rand.New(sameNumbers{}), rand.New(sameNumbers{})
	t.victim.plan[stepGiving] = hold
	x.start(ctx, t.victim)
	x.until(ctx, x.patience, t.victim.stopped)
	t.others(ctx)
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
