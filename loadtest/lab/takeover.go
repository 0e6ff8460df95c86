package lab

import "context"

// playTakeover lets a holder die without an expiry on its lock. Two others find its time
// past. Both overwrite the lock, and each finds its own value in it, because the first
// looks before the second writes.
func playTakeover(ctx context.Context, x *cell) error {
	t, err := newTrio(x)
	if err != nil {
		return err
	}
	t.victim.plan[stepSet] = crash
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
