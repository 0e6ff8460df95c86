package coordinator

import (
	"context"
	"time"

	"roomd/lockmgr"
)

// acquire waits for the room's lock on behalf of all actions in the queue, until the lock is
// ours or the first of them has waited for too long.
func (w *worker) acquire() {
	w.copy.CatchUp()
	queued := w.inLine && w.copy.Room != nil // else the answer has the room
	w.enterLine()
	if queued {
		w.ws.feeds.Follow(&w.copy, w.id)
	}
	ctx, end := w.queue.context(w.ws.life.life)
	defer end()
	alone, err := w.slot.Acquire(ctx, queued, w.ask)
	w.quiet = alone && err == nil
	switch {
	case err == nil:
		w.held = true
		if !alone {
			w.lookahead.reached()
		}
	case ctx.Err() != nil:
		w.failLate()
		if w.inDoubt { // the request may have been carried out
			w.abandon()
		}
	default:
		w.abandon()
		w.queue.fail(w.unavailable(err))
	}
}

// enterLine records that the token waits, or is going to.
func (w *worker) enterLine() {
	if !w.inLine && !w.quiet {
		w.lookahead.missing()
	}
	w.inLine = true
}

// askForLock asks once for the lock, and gets the room with it if there is no copy.
func (w *worker) askForLock(ctx context.Context) (held bool, err error) {
	w.copy.CatchUp()
	defer func() { w.inDoubt = err != nil }()
	held, read, err := w.ws.store.Acquire(ctx, w.slot, w.id, w.copy.Room != nil)
	if err != nil {
		return false, err
	}
	if read != nil {
		w.read(read)
	}
	if !held {
		w.ws.feeds.Follow(&w.copy, w.id)
	}
	return held, nil
}

// abandon takes the token out of the lock's queue, or releases the lock unused.
func (w *worker) abandon() {
	if w.inLine {
		w.held, w.inLine = false, false
		w.slot.Abandon()
	}
}

// A node that shares a busy room with others has its next token put into the line by
// the same script that releases the lock, even if nothing waits for the room here
// at that moment: until the lock is handed to that token something will have come, and
// need not ask for the lock any more. So a hold is one request instead of two. It is done
// only as long as it pays.

// lookahead says whether it pays to queue a token before something waits. The zero value says no.
type lookahead struct {
	pays   bool
	lined  time.Time     // when the token was put into the line
	waited time.Duration // how long the last token waited for the lock
	ended  time.Time     // when the last hold ended
}

// missing records that the lock is asked for, for want of a place: one that had been kept
// at the end of the last hold would have been of use if it had not got the lock yet.
func (l *lookahead) missing() {
	l.lined = time.Now()
	l.pays = l.lined.Sub(l.ended) <= l.waited
}

// holdEnded records the end of a hold.
func (l *lookahead) holdEnded() {
	l.ended = time.Now()
	l.lined = l.ended
}

// reached records that the token got the lock.
func (l *lookahead) reached() { l.waited = time.Since(l.lined) }

// waitAhead waits in the line without anything to do, for the lock or for something
// to come. When neither has happened for twice as long as usual, it gives up.
func (w *worker) waitAhead() {
	end := time.Now().Add(min(2*w.lookahead.waited, lockmgr.DefaultClaim))
	for w.queue.empty() && !w.held && w.ws.life.open.Err() == nil && time.Now().Before(end) {
		w.ws.feeds.Follow(&w.copy, w.id)
		held, err := w.slot.Wait(w.ws.life.open)
		switch {
		case held:
			w.held = true
			w.lookahead.reached()
		case err != nil:
			w.failLate()
		}
	}
	if w.queue.empty() {
		w.lookahead.pays = false
	}
}
