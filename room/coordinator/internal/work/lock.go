package work

import (
	"context"
	"time"

	"roomd/lockmgr"
)

// acquire waits for the room's lock until the worker has it or queue.context ends. Other errors fail the whole queue.
func (w *worker) acquire() {
	w.copy.CatchUp()
	queued := w.status == waiting && w.copy.Room != nil // without a copy the token asks again, to read the room
	w.enterQueue()
	if queued {
		w.pool.Feeds.Follow(&w.copy, w.id)
	}
	ctx, end := w.queue.context(w.pool.life)
	defer end()
	atOnce, err := w.slot.Acquire(ctx, queued, w.ask)
	switch {
	case err == nil:
		w.granted(atOnce)
	case ctx.Err() != nil:
		w.failLate()
		if w.slot.InDoubt() {
			w.abandon()
		}
	default:
		w.abandon()
		w.queue.fail(unavailable(w.id, err))
	}
}

// enterQueue records that the token waits in Redis, or soon will.
func (w *worker) enterQueue() {
	if w.status == shared {
		w.lookahead.missing()
	}
	w.status.take(asked)
}

// granted records that the token has got the lock, at once or after others.
func (w *worker) granted(atOnce bool) {
	if atOnce {
		w.status.take(grantedAtOnce)
		return
	}
	w.lookahead.granted()
	w.status.take(granted)
}

// askForLock asks once for the lock. If there is no copy, the same request reads the room.
func (w *worker) askForLock(ctx context.Context) (held bool, err error) {
	w.copy.CatchUp()
	held, read, err := w.pool.store.Acquire(ctx, w.slot, w.id, w.copy.Room != nil)
	if err != nil {
		return false, err
	}
	if read != nil {
		w.read(read)
	}
	if !held {
		w.pool.Feeds.Follow(&w.copy, w.id)
	}
	return held, nil
}

// abandon removes the token from the lock's queue, or releases the lock unused.
func (w *worker) abandon() {
	if w.status.inRedis() {
		w.status.take(spent)
		w.slot.Abandon()
	}
}

// waitAhead waits for the lock although no action does: until it has the lock, an action comes or the node closes, at
// most for twice the last wait or a lockmgr.DefaultClaim, whichever is shorter.
func (w *worker) waitAhead() {
	end := time.Now().Add(min(2*w.lookahead.waited, lockmgr.DefaultClaim))
	for w.queue.empty() && !w.status.holds() && w.pool.open.Err() == nil && time.Now().Before(end) {
		w.pool.Feeds.Follow(&w.copy, w.id)
		held, err := w.slot.Wait(w.pool.open)
		switch {
		case held:
			w.granted(false)
		case err != nil:
			w.failLate()
		}
	}
	if w.queue.empty() {
		w.lookahead.pays = false
	}
}
