package coordinator

import (
	"errors"
	"runtime"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// hold runs one batch: apply, commit, answer. If the worker does not have the lock, the commit has to find it
// free; see [store.Store.Send].
func (w *worker) hold() {
	w.copy.CatchUp()
	if w.copy.Room == nil {
		w.held = false // ask for the lock, again if need be: the answer has the room
		return
	}
	if !w.held {
		// Who has just been answered may act again: where the node is busy more actions share a commit so.
		runtime.Gosched()
	}
	most := w.ws.opts.MaxBatch
	if w.singly > 0 {
		most = 1
	}
	batch, more := w.queue.take(most)
	if len(batch) == 0 {
		w.giveUp()
		return
	}
	if !w.registration.Valid() { // who asked to be taken over into the node's next name must not be under the old one
		w.queue.putBack(batch)
		return
	}
	h := w.begin(more)
	began := time.Now()
	outcomes, at, err := w.apply(batch, more, &h)
	w.trace(batch, began, err)
	if w.singly > 0 && !errors.Is(err, store.ErrQueued) && !errors.Is(err, store.ErrLost) {
		w.singly--
	}
	switch {
	case errors.Is(err, store.ErrFull) && len(batch) > 1: // who leaves needs no memory, and must not wait for who joins
		w.singly = len(batch)
		w.queue.putBack(batch)
		return
	case errors.Is(err, store.ErrQueued):
		w.queue.putBack(batch)
		w.quiet = false
		w.enterLine()
		return
	case errors.Is(err, store.ErrLost):
		w.ws.logs.stale.Happened(nil, "room", w.id)
		w.queue.putBack(batch)
		return
	case err != nil:
		if h.Next != "" { // if it is written after all
			w.inLine = true
			w.slot.Promised()
		}
		for _, r := range batch {
			r.fail(err)
		}
		return
	}
	w.held, w.inLine = at == store.NextHolds, h.Next != "" && at != store.NextNowhere
	w.lookahead.holdEnded()
	for i, r := range batch {
		r.done <- outcomes[i]
	}
	if w.inLine && !w.held && !more {
		w.waitAhead()
	}
}

// begin returns the hold of a batch. more says that others wait behind it.
func (w *worker) begin(more bool) store.Hold {
	h := store.Hold{Node: w.registration.Node()}
	if !w.held {
		return h
	}
	h.Token = w.slot.Token()
	w.held, w.inLine = false, false
	next := w.slot.Renew()
	switch {
	case more:
		h.Next = next // keeps our place in the line, or the lock if nobody waits there
	case w.lookahead.pays && !w.quiet:
		h.Next, h.OnlyQueue = next, true
	}
	return h
}

// maxStale is how often a room can turn out to be another one under its lock. Once is
// usual; a second time needs Redis to lose something at that moment.
const maxStale = 10

// apply applies a batch to the copy and commits it. If the room turns out to be at
// another version it does so again; the lock is ours as long as that happens, and h is that hold. at is
// where the next token is. It fails with store.ErrLost, store.ErrQueued, ErrUnavailable or ErrUnknown.
func (w *worker) apply(batch []*request, more bool, h *store.Hold) (outcomes []outcome, at store.NextToken, err error) {
	outcomes = make([]outcome, len(batch))
	for stale := 0; ; stale++ {
		for i, r := range batch {
			w.applyOne(r, h.Node, &outcomes[i])
		}
		var now *room.Room
		c := w.ws.store.Prepare(w.copy.Room, w.keys, *h)
		at, now, err = w.commit(c)
		switch {
		case errors.Is(err, store.ErrStale):
			if h.Token == "" {
				w.quiet, w.held, w.inLine = false, true, true
				if !w.registration.Valid() { // the node has stood still
					w.giveUp()
					w.copy.Room = now
					return nil, at, store.ErrLost
				}
				*h = w.begin(more)
			}
			if stale == maxStale {
				w.copy.Room = nil
				w.slot.Return(h.Token)
				return nil, at, w.unavailable(err)
			}
			call(w.ws.opts.Trace.Reapplied)
			w.ws.feeds.Follow(&w.copy, w.id) // somebody else has written to it, or a failover has lost something
			if w.copy.Room.Lost(now.Position) {
				now.Renew()
			}
			w.copy.Room = now
			continue
		case errors.Is(err, store.ErrLost), errors.Is(err, store.ErrQueued), errors.Is(err, room.ErrUnavailable):
			w.copy.Room.Revert()
			return nil, at, err
		case err != nil:
			w.copy.Room = nil
			return nil, at, err
		}
		w.quiet = w.quiet || h.Token == ""
		w.committed(c)
		snapshot := w.copy.Room.Snapshot()
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
	o.result.Seat, o.err = w.copy.Room.Apply(r.action, w.ws.opts.Rules, room.Origin{Node: node, At: r.at})
	if user, _ := room.Subject(r.action); w.ws.opts.Replicas > 0 && o.err == nil && user != "" && w.copy.Room.Mark != w.acked {
		w.copy.Room.Confirm()
	}
}

// committed publishes a commit on this node, and makes the copy what Redis has now.
func (w *worker) committed(c *store.Commit) {
	if c.Event != nil {
		w.acked = c.Mark
		call(w.ws.opts.Trace.Committed)
		w.ws.incomplete(c)
		w.ws.feeds.Committed(w.id, c.Event)
	}
	if w.copy.Room.Renewed() {
		w.ws.logs.partial.Happened(nil, "room", w.id)
	}
	w.copy.Room.Commit(c.Epoch, c.Mark)
	if c.Event != nil {
		w.ws.lobby.Committed(w.copy.Room, c.Event.Updates)
	}
}
