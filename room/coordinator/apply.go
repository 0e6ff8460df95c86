package coordinator

import (
	"errors"

	"roomd/room"
)

// hold is one hold of the lock by a worker.
type hold struct {
	batch []*request // that share it
	who   *identity  // under whose name they are committed
	token string     // that the lock holds

	// next is the token of the worker's next hold if the commit is to put that into the
	// line, else empty. If no other node waits it gets the lock at once, unless onlyQueue
	// says that it is not needed then.
	next      string
	onlyQueue bool
}

// hold runs one batch under the lock: apply, commit, answer.
func (w *worker) hold() {
	w.copy.catchUp()
	if w.copy.room == nil {
		w.held = false // take again: the answer has the room
		return
	}
	batch, more := w.queue.take(w.opts.MaxBatch)
	if len(batch) == 0 {
		w.giveUp()
		return
	}
	w.held, w.inLine, w.retired = false, false, false
	h := hold{batch: batch, who: w.registered, token: w.slot.Token()}
	next := w.slot.Renew()
	switch {
	case more:
		h.next = next // keeps our place in the line, or the lock if nobody waits there
	case w.place.pays && !w.quiet:
		h.next, h.onlyQueue = next, true
	}
	trace := w.traceHold(batch)
	outcomes, at, err := w.apply(h)
	trace.ended(err)
	switch {
	case errors.Is(err, errLost):
		w.episodes.stale.Happened(nil, "room", w.id)
		w.queue.putBack(batch)
		return
	case err != nil:
		w.inLine = h.next != "" // if it was written after all
		for _, r := range batch {
			r.fail(err)
		}
		return
	}
	w.held, w.inLine = at == nextHolds, h.next != "" && at != nextNowhere
	w.place.holdEnded()
	for i, r := range batch {
		r.done <- outcomes[i]
	}
	switch {
	case !w.inLine || w.held:
	case more:
		ctx, end := w.queue.context(w.lifetime.life)
		defer end()
		w.wait(ctx)
	default:
		w.keepPlace()
	}
}

// maxStale is how often a room can turn out to be another one under its lock. Once is
// usual; a second time needs Redis to lose something at that moment.
const maxStale = 10

// apply applies a batch to the copy and commits it. If the room turns out to be at
// another version it does so again; the lock is ours as long as that happens. at is
// where the next token is. It fails with errLost, ErrUnavailable or ErrUnknown.
func (w *worker) apply(h hold) (outcomes []outcome, at nextToken, err error) {
	outcomes = make([]outcome, len(h.batch))
	for stale := 0; ; stale++ {
		for i, r := range h.batch {
			w.applyOne(r, h.who.node, &outcomes[i])
		}
		var now *room.Room
		c := w.store.prepare(w.copy.room, w.keys, h)
		at, now, err = w.commit(c)
		switch {
		case errors.Is(err, errStale) && stale == maxStale:
			w.copy.room = nil
			w.slot.Return(h.token)
			return nil, at, w.unavailable(err)
		case errors.Is(err, errStale):
			call(w.opts.Trace.Reapplied)
			w.copy.follow(w.feeds, w.id) // somebody else has written to it, or a failover has lost something
			if w.copy.room.Lost(now.Position) {
				now.Renew()
			}
			w.copy.room = now
			continue
		case errors.Is(err, errLost), errors.Is(err, room.ErrUnavailable):
			w.copy.room.Revert()
			return nil, at, err
		case err != nil:
			w.copy.room = nil
			return nil, at, err
		}
		w.committed(c)
		snapshot := w.copy.room.Snapshot()
		for i := range outcomes {
			outcomes[i].result.Snapshot = snapshot
		}
		return outcomes, at, nil
	}
}

// applyOne applies one action to the copy.
//
// An action that succeeds without a change confirms what it found: a user whose join had an
// unknown outcome joins again, and hears "you are in". If the replicas are not known to have
// that, the room gets a version that they must have. A refusal promises nothing.
func (w *worker) applyOne(r *request, node string, o *outcome) {
	*o = outcome{result: room.Result{Node: node}}
	o.result.Seat, o.err = w.copy.room.Apply(r.action, w.opts.Rules, room.Origin{Node: node, At: r.at})
	if w.opts.Replicas > 0 && o.err == nil && r.action.User() != "" && w.copy.room.Mark != w.acked {
		w.copy.room.Confirm()
	}
}

// committed publishes a commit on this node, and makes the copy what Redis has now.
func (w *worker) committed(c *commit) {
	if c.event != nil {
		w.acked = c.mark
		call(w.opts.Trace.Committed)
		w.episodes.incomplete(c)
		w.feeds.committed(w.id, c.event)
	}
	if w.copy.room.Renewed() {
		w.episodes.partial.Happened(nil, "room", w.id)
	}
	w.copy.room.Commit(c.epoch, c.mark)
}
