package work

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// batch has the actions of one commit, from dequeuing to answering. A worker reuses its batch.
type batch struct {
	requests []*request
	more     bool // other requests wait behind these
	hold     store.Hold
	began    time.Time
	outcomes []outcome     // by request
	commit   *store.Commit // of all requests together
	sent     time.Time     // just before the actions were applied and commit was first sent
	stale    int           // how often the room under the lock was at another version

	announced *store.Commit // commit, once the index of timers has its deadlines
}

// nextBatch dequeues a batch, applies it to the copy and prepares its commit. It returns nil if there is no batch, or
// if the worker must first read the room or renew its registration.
func (w *worker) nextBatch() *batch {
	w.copy.CatchUp()
	if w.copy.Room == nil {
		if w.status.holds() { // ask for the lock again: the answer contains the room
			w.status.take(asked)
		}
		return nil
	}
	if !w.status.holds() {
		// Yield: callers just answered can queue their next action, so that more actions share a commit.
		runtime.Gosched()
	}
	b := &w.batch
	b.requests, b.more = w.queue.dequeue(b.requests[:0], w.pool.opts.MaxBatch)
	if len(b.requests) == 0 {
		w.abandon()
		return nil
	}
	if !w.registration.Valid() { // a Keep must not run under a name that the node has lost
		w.queue.requeue(b.requests, false)
		return nil
	}
	b.hold, b.began, b.stale = w.nextHold(b.more), time.Now(), 0
	b.sent = b.began
	b.outcomes = slices.Grow(b.outcomes[:0], len(b.requests))[:len(b.requests)]
	w.apply(b)
	return b
}

func (w *worker) nextHold(more bool) store.Hold {
	h := store.Hold{Node: w.registration.Node()}
	if !w.status.holds() {
		h.OnConflict = w.conflicts.next(w.copy.Follows())
		return h
	}
	ahead := w.lookahead.pays && w.status == holding
	h.Token = w.slot.Token()
	w.status.take(spent)
	next := w.slot.Renew()
	switch {
	case more:
		h.Next = next // keeps our place in the queue, or the lock if nobody waits there
	case ahead:
		h.Next, h.OnlyQueue = next, true
	}
	return h
}

// apply applies a batch to the copy, and prepares its commit.
//
// An action that succeeds without a change is still a promise: a user who repeats a join of unknown outcome is told
// "you are in", and a backend that its party is. Unless enough replicas are known to have the room, the action makes a
// version that they must acknowledge. A refusal promises nothing, and nobody waits for an Upkeep.
//
// Revert makes the copy forget that its epoch has lost commits. So does reading the room after a commit of a node that
// does not know of the loss. So the worker remembers the epoch until a commit has begun a new one.
func (w *worker) apply(b *batch) {
	if r := w.copy.Room; w.conflicts.lostEpoch != "" && r.Epoch == w.conflicts.lostEpoch {
		r.Renew()
	}
	w.pool.Feeds.Recall(w.copy.Room)
	for i, r := range b.requests {
		seat, err := w.copy.Room.Apply(r.action, w.pool.opts.Rules, room.Origin{Node: b.hold.Node, At: r.at})
		b.outcomes[i] = outcome{room.Result{Node: b.hold.Node, Seat: seat}, err}
		_, upkeep := r.action.(room.Upkeep)
		if w.pool.opts.Replicas > 0 && err == nil && !upkeep && w.copy.Room.CommitID != w.acked {
			w.copy.Room.Confirm()
		}
	}
	b.commit = w.pool.store.Prepare(w.copy.Room, w.keys, b.hold)
}

// MaxStale limits how often a batch is reapplied under its lock. A second time needs Redis to lose data just then.
const MaxStale = 10

// reapply applies a batch again, to the room as a stale commit has read it under the lock (now). A commit without a
// token has taken the lock for that. reapply fails with store.ErrLost or ErrUnavailable.
func (w *worker) reapply(b *batch, now *room.Room) error {
	if b.hold.Token == "" { // the commit has taken the lock
		w.status.take(metOthers)
		w.status.take(kept)
		if !w.registration.Valid() { // the node has stalled
			w.abandon()
			w.found(now)
			return store.ErrLost
		}
		b.hold = w.nextHold(b.more)
	}
	if b.stale == MaxStale {
		w.copy.Room = nil
		w.slot.Release(b.hold.Token)
		return unavailable(w.id, store.ErrStale)
	}
	b.stale++
	call(w.pool.opts.Trace.Reapplied)
	w.found(now)
	b.sent = time.Now()
	w.apply(b)
	return nil
}

// conflict updates the copy after a commit without the lock met another version. now is the room in Redis, nil if the
// copy's events show it.
func (w *worker) conflict(now *room.Room) {
	call(w.pool.opts.Trace.Reapplied)
	w.status.take(metOthers)
	w.conflicts.inARow++
	if now != nil {
		w.conflicts.eventsLost = w.conflicts.eventsLost && !w.copy.HasNews()
		w.found(now)
		return
	}
	w.copy.Room.Revert()
	w.conflicts.eventsLost = !w.copy.Await(EventPatience)
}

// found replaces the copy with the room that Redis has: another node wrote to it, or a failover lost something.
func (w *worker) found(now *room.Room) {
	w.pool.Feeds.Follow(&w.copy, w.id)
	if w.copy.Room.Lost(now.Position) {
		now.Renew()
	}
	w.read(now)
}

func (w *worker) read(r *room.Room) {
	if r.Renewed() {
		w.conflicts.lostEpoch = r.Epoch
	}
	w.copy.Room = r
	w.pool.Timers.Found(r)
}

// finish ends a batch whose commit was answered by a. A stale batch is first applied and committed again.
func (w *worker) finish(b *batch, a answer) {
	for errors.Is(a.err, store.ErrStale) {
		if err := w.reapply(b, a.now); err != nil {
			a.err = err
			w.answer(b, a)
			return
		}
		a = w.commit(b)
	}
	switch {
	case errors.Is(a.err, store.ErrConflict):
		w.conflict(a.now)
	case a.err == nil:
		w.conflicts.inARow = 0
		if b.hold.Token == "" {
			w.status.take(metNobody)
		}
		if b.commit.Event != nil {
			w.acked = b.commit.CommitID
		}
		w.pool.committed(w.copy.Room, b.commit)
	case errors.Is(a.err, store.ErrLost), errors.Is(a.err, store.ErrQueued), errors.Is(a.err, room.ErrUnavailable):
		w.copy.Room.Revert()
	default:
		w.copy.Room = nil
	}
	w.answer(b, a)
}

// answer answers the callers of a batch, or requeues the batch.
func (w *worker) answer(b *batch, a answer) {
	defer b.forget()
	switch {
	case errors.Is(a.err, store.ErrConflict):
		w.queue.requeue(b.requests, false)
		return
	case errors.Is(a.err, store.ErrQueued):
		w.queue.requeue(b.requests, false)
		w.status.take(metOthers)
		w.enterQueue()
		return
	}
	w.holdEnded(b, a.err)
	switch {
	case errors.Is(a.err, store.ErrFull) && len(b.requests) > 1:
		// each gets a commit of its own: a leave needs no memory, and must not wait for a join
		w.queue.requeue(b.requests, true)
	case errors.Is(a.err, store.ErrLost):
		w.pool.logs.stale.Happened(nil, "room", w.id)
		w.queue.requeue(b.requests, false)
	case a.err != nil:
		if b.hold.Next != "" { // in case the commit is written after all
			w.status.take(asked)
			w.slot.Promised()
		}
		for _, r := range b.requests {
			r.fail(a.err)
		}
	default:
		w.succeed(b, a.at)
	}
}

// succeed answers the callers of a written batch. at is where the next token is.
func (w *worker) succeed(b *batch, at store.NextToken) {
	snapshot := w.copy.Room.Snapshot()
	for i, r := range b.requests {
		b.outcomes[i].result.Snapshot = snapshot
		r.done <- b.outcomes[i]
	}
	switch {
	case at == store.NextHolds:
		w.status.take(kept)
	case b.hold.Next != "" && at != store.NextNowhere:
		w.status.take(asked)
		if !b.more {
			w.waitAhead()
		}
	}
}

// forget drops references, so that the reused batch keeps nothing alive.
func (b *batch) forget() {
	clear(b.requests)
	clear(b.outcomes)
	b.commit, b.announced = nil, nil
}

// committed makes the copy r equal to Redis after commit c, and informs this node's feeds, lobby, timers and relay.
func (p *Pool) committed(r *room.Room, c *store.Commit) {
	if c.Event != nil {
		call(p.opts.Trace.Committed)
		p.incomplete(c)
	}
	if r.Renewed() {
		p.logs.partial.Happened(nil, "room", r.ID)
		p.Node.List(r)
	}
	r.Commit(c.Epoch, c.CommitID)
	p.Feeds.Committed(r, c.Event)
	if c.Event != nil {
		p.Lobby.Committed(r, c.Event.Updates)
		p.Timers.Committed(r, c.Event.Updates)
		if p.opts.Feed > 0 {
			p.Relay.Committed(r.ID)
		}
	}
}

// incomplete logs the parts of a successful commit that Redis did not take.
func (p *Pool) incomplete(c *store.Commit) {
	if c.Unheard != "" {
		p.logs.unheard.Happened(errors.New(c.Unheard), "room", c.ID)
	}
	if c.Unlogged != "" {
		p.logs.unlogged.Happened(errors.New(c.Unlogged), "room", c.ID)
	}
}
