package coordinator

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// batch is the actions of one hold, from the queue to the answers. A worker uses its own again and again.
type batch struct {
	requests []*request
	more     bool // others wait behind them
	hold     store.Hold
	began    time.Time
	outcomes []outcome     // by request
	commit   *store.Commit // of what the requests do
	sent     time.Time     // when that was sent first
	stale    int           // how often the room has turned out to be another one
}

// hold runs one batch: apply, commit, answer. If the worker does not have the lock, the commit has to find it
// free; see [store.Store.Send].
func (w *worker) hold() {
	if b := w.nextBatch(); b != nil {
		at, now, err := w.commit(b)
		w.finish(b, at, now, err)
	}
}

// nextBatch takes a batch from the queue, applies it to the copy and prepares its commit. It returns nil if that
// has to wait.
func (w *worker) nextBatch() *batch {
	w.copy.CatchUp()
	if w.copy.Room == nil {
		w.held = false // ask for the lock, again if need be: the answer has the room
		return nil
	}
	if !w.held {
		// Who has just been answered may act again: where the node is busy more actions share a commit so.
		runtime.Gosched()
	}
	most := w.ws.opts.MaxBatch
	if w.singly > 0 {
		most = 1
	}
	b := &w.batch
	b.requests, b.more = w.queue.dequeue(b.requests[:0], most)
	if len(b.requests) == 0 {
		w.abandon()
		return nil
	}
	if !w.registration.Valid() { // who asked to be taken over into the node's next name must not be under the old one
		w.queue.requeue(b.requests)
		return nil
	}
	b.hold, b.began, b.stale = w.begin(b.more), time.Now(), 0
	b.outcomes = slices.Grow(b.outcomes[:0], len(b.requests))[:len(b.requests)]
	w.apply(b)
	return b
}

// begin returns the hold of a batch. more says that others wait behind it.
func (w *worker) begin(more bool) store.Hold {
	h := store.Hold{Node: w.registration.Node()}
	if !w.held {
		h.Behind = w.behind.asks(w.copy.Follows())
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

// apply applies a batch to the copy, and prepares its commit.
//
// What was lost is known until a commit has begun a new epoch, whatever becomes of the commits before: the copy
// forgets it when it is reverted, or read again after another node, which does not know it, has written.
func (w *worker) apply(b *batch) {
	if r := w.copy.Room; w.ends != "" && r.Epoch == w.ends {
		r.Renew()
	}
	w.ws.feeds.Recall(w.copy.Room)
	for i, r := range b.requests {
		w.applyOne(r, b.hold.Node, &b.outcomes[i])
	}
	b.commit = w.ws.store.Prepare(w.copy.Room, w.keys, b.hold)
}

// maxStale is how often a room can turn out to be another one under its lock. Once is
// usual; a second time needs Redis to lose something at that moment.
const maxStale = 10

// reapply applies a batch to the room as it is now, since the copy was stale. The lock is ours as long as that
// happens. It fails with store.ErrLost or ErrUnavailable.
func (w *worker) reapply(b *batch, now *room.Room) error {
	if b.hold.Token == "" {
		w.quiet, w.held, w.inLine = false, true, true
		if !w.registration.Valid() { // the node has stood still
			w.abandon()
			w.found(now)
			return store.ErrLost
		}
		b.hold = w.begin(b.more)
	}
	if b.stale == maxStale {
		w.copy.Room = nil
		w.slot.Release(b.hold.Token)
		return w.unavailable(store.ErrStale)
	}
	b.stale++
	call(w.ws.opts.Trace.Reapplied)
	w.found(now)
	w.apply(b)
	return nil
}

// found makes the copy the room that Redis has. Somebody else has written to it, or a failover has lost something.
func (w *worker) found(now *room.Room) {
	w.ws.feeds.Follow(&w.copy, w.id)
	if w.copy.Room.Lost(now.Position) {
		now.Renew()
	}
	w.read(now)
}

// read makes the copy the room as it was read.
func (w *worker) read(r *room.Room) {
	if r.Renewed() {
		w.ends = r.Epoch
	}
	w.copy.Room = r
	w.ws.timers.Found(r)
}

// finish ends a batch whose commit was answered so, or failed. If the room has turned out to be
// at another version it first applies the batch again, and commits that.
func (w *worker) finish(b *batch, at store.NextToken, now *room.Room, err error) {
	for errors.Is(err, store.ErrStale) {
		if err = w.reapply(b, now); err != nil {
			w.answer(b, at, err)
			return
		}
		at, now, err = w.commit(b)
	}
	switch {
	case errors.Is(err, store.ErrBehind):
		w.fallBehind(now)
	case err == nil:
		w.behind.times = 0
		w.quiet = w.quiet || b.hold.Token == ""
		w.committed(b.commit)
	case errors.Is(err, store.ErrLost), errors.Is(err, store.ErrQueued), errors.Is(err, room.ErrUnavailable):
		w.copy.Room.Revert()
	default:
		w.copy.Room = nil
	}
	w.answer(b, at, err)
}

// answer tells the callers of a batch what became of it, or has them wait again. at is where the next token is.
func (w *worker) answer(b *batch, at store.NextToken, err error) {
	w.trace(b.requests, b.began, err)
	defer b.forget()
	if w.singly > 0 && !errors.Is(err, store.ErrQueued) && !errors.Is(err, store.ErrBehind) && !errors.Is(err, store.ErrLost) {
		w.singly--
	}
	switch {
	case errors.Is(err, store.ErrFull) && len(b.requests) > 1: // who leaves needs no memory, and must not wait for who joins
		w.singly = len(b.requests)
		w.queue.requeue(b.requests)
		return
	case errors.Is(err, store.ErrQueued):
		w.queue.requeue(b.requests)
		w.quiet = false
		w.enterLine()
		return
	case errors.Is(err, store.ErrBehind):
		w.queue.requeue(b.requests)
		return
	case errors.Is(err, store.ErrLost):
		w.ws.logs.stale.Happened(nil, "room", w.id)
		w.queue.requeue(b.requests)
		return
	case err != nil:
		if b.hold.Next != "" { // if it is written after all
			w.inLine = true
			w.slot.Promised()
		}
		for _, r := range b.requests {
			r.fail(err)
		}
		return
	}
	w.held, w.inLine = at == store.NextHolds, b.hold.Next != "" && at != store.NextNowhere
	w.lookahead.holdEnded()
	snapshot := w.copy.Room.Snapshot()
	for i, r := range b.requests {
		b.outcomes[i].result.Snapshot = snapshot
		r.done <- b.outcomes[i]
	}
	if w.inLine && !w.held && !b.more {
		w.waitAhead()
	}
}

// forget drops what was answered.
func (b *batch) forget() {
	clear(b.requests)
	clear(b.outcomes)
	b.commit = nil
}

// applyOne applies one action to the copy.
//
// An action that succeeds without a change confirms what it found: a user whose join had an
// unknown outcome joins again, and hears "you are in". If the replicas are not known to have
// that, the room gets a version that they must have. A refusal promises nothing.
func (w *worker) applyOne(r *request, node string, o *outcome) {
	*o = outcome{result: room.Result{Node: node}}
	o.result.Seat, o.err = w.copy.Room.Apply(r.action, w.ws.opts.Rules, room.Origin{Node: node, At: r.at})
	if user, _ := room.Subject(r.action); w.ws.opts.Replicas > 0 && o.err == nil && user != "" && w.copy.Room.CommitID != w.acked {
		w.copy.Room.Confirm()
	}
}

// committed makes the copy what Redis has after a commit, and tells this node.
func (w *worker) committed(c *store.Commit) {
	if c.Event != nil {
		w.acked = c.CommitID
	}
	w.ws.committed(w.copy.Room, c)
}

// committed makes a room what Redis has after a commit, and tells this node.
func (ws *workers) committed(r *room.Room, c *store.Commit) {
	if c.Event != nil {
		call(ws.opts.Trace.Committed)
		ws.incomplete(c)
		ws.feeds.Committed(r.ID, c.Event)
	}
	if r.Renewed() {
		ws.logs.partial.Happened(nil, "room", r.ID)
		ws.node.List(r)
	}
	r.Commit(c.Epoch, c.CommitID)
	ws.feeds.Saw(r)
	if c.Event != nil {
		ws.lobby.Committed(r, c.Event.Updates)
		ws.timers.Committed(r, c.Event.Updates)
		ws.relay.Committed(r.ID)
	}
}
