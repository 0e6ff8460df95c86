package work

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/feed"
	"roomd/room/coordinator/internal/store"
)

// worker serves one room on this node, hold after hold. Its goroutine runs as long as something waits in the queue:
// it applies what waits to the copy of the room (apply.go) and commits it (commit.go), by itself or when it has got
// the lock (lock.go). Then the worker is idle and keeps the copy for a while, so that the next action need not read
// the room.
type worker struct {
	pool  *Pool
	id    string
	queue queue
	keys  *store.Keys
	slot  *lockmgr.Slot

	// Used only by the worker's goroutine.
	status       status
	conflicts    conflicts
	lookahead    lookahead
	batch        batch
	copy         feed.Replica // of the room: while other nodes write to it too, it follows their events
	registration *cluster.Registration
	// the id of the last commit that enough replicas are known to have
	acked string
	ask   func(ctx context.Context) (held bool, err error) // askForLock

	idleAt *list.Element // guarded by pool.mu: its place in pool.idle; nil while it is busy
	size   int           // guarded by pool.mu: what it counts for while it is idle
	since  time.Time     // guarded by pool.mu: when it became idle
}

// serve runs holds until nothing waits.
func (w *worker) serve() {
	for {
		switch {
		case w.finished():
			return
		case w.queue.overdue():
			w.failLate()
		case w.queue.empty(): // all callers gave up
			w.abandon()
		case !w.ready():
		case w.status.holds(), !w.status.inRedis() && w.copy.Room != nil:
			w.hold()
		default:
			w.acquire()
		}
	}
}

// serveCaller is the fast path: it runs one batch in the goroutine of a caller, whose request began the queue, so
// that nothing has to be started and woken. A goroutine takes over what needs more than requests to Redis that are
// answered soon, and the requests that have come meanwhile. ctx is the caller's.
func (w *worker) serveCaller(ctx context.Context) {
	defer func() {
		// a caller who recovers would leave the room without anybody who serves it
		if reason := recover(); reason != nil {
			go panic(reason)
			select {}
		}
		w.pool.running.Done()
	}()
	if w.status.inRedis() || w.pool.opts.Replicas > 0 || !w.registration.Valid() {
		w.pool.running.Go(w.serve)
		return
	}
	for again := true; again; {
		b := w.nextBatch()
		if b == nil {
			break
		}
		prompt := w.pool.prompt.Context()
		a := w.send(prompt, b)
		conflict := errors.Is(a.err, store.ErrConflict)
		if a.err != nil && !conflict {
			w.pool.running.Go(func() { w.serveOn(b, prompt, a) })
			return
		}
		w.finish(b, a)
		again = conflict && ctx.Err() == nil
	}
	if !w.finished() {
		w.pool.running.Go(w.serve)
	}
}

// serveOn serves after a caller has sent the commit of b within ctx, and a says that it was not written, or is in
// doubt.
func (w *worker) serveOn(b *batch, ctx context.Context, a answer) {
	if errors.Is(a.err, store.ErrRefused) && ctx.Err() != nil { // for want of time
		a = w.send(w.pool.timeout.Context(), b)
	}
	w.finish(b, w.decide(b, a))
	w.serve()
}

// finished makes the worker idle, if nothing waits and there is no token to give up.
func (w *worker) finished() bool {
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	if w.status.inRedis() || !w.queue.empty() {
		return false
	}
	w.pool.sleepLocked(w)
	return true
}

// ready makes sure that the node may write to the room under its name. Otherwise it fails the requests that wait.
func (w *worker) ready() bool {
	if w.registration.Valid() {
		return true
	}
	ctx, end := w.queue.context(w.pool.life)
	defer end()
	err := w.registration.Open(ctx)
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil:
		w.failLate()
	case errors.Is(err, room.ErrClosed):
		w.queue.fail(room.ErrClosed)
	default:
		w.queue.fail(unavailable(w.id, err))
	}
	return false
}

// failLate fails the requests that have waited for longer than Options.LockWait, or all when the coordinator is closed.
func (w *worker) failLate() {
	switch {
	case w.pool.life.Err() != nil:
		w.queue.fail(w.pool.late(w.id))
	case w.queue.overdue():
		w.queue.failOverdue(w.pool.late(w.id))
	}
}

// answer is what became of a commit that was sent: see [store.Store.Send].
type answer struct {
	at  store.NextToken
	now *room.Room
	err error
}

// send sends the commit of a batch once.
func (w *worker) send(ctx context.Context, b *batch) (a answer) {
	a.at, a.now, a.err = w.pool.store.Send(ctx, w.slot, b.commit)
	return a
}

// commit writes what was done to the room, and gives back the lock with it if the worker has that. It fails with
// store.ErrLost, store.ErrQueued, store.ErrStale, store.ErrConflict, ErrUnavailable or ErrUnknown.
func (w *worker) commit(b *batch) answer {
	return w.decide(b, w.send(w.pool.timeout.Context(), b))
}

// decide learns what became of the commit of a batch, which was answered by a, or not. It sends the commit again
// until a LockTTL has passed since it was sent first: then no copy of it can be carried out any more.
func (w *worker) decide(b *batch, a answer) answer {
	if !store.IsDecided(a.err) {
		ctx, cancel := context.WithDeadline(w.pool.life, b.sent.Add(w.pool.opts.LockTTL))
		defer cancel()
		decided, err := w.pool.resend(ctx, w.id, a.err, func(ctx context.Context) error {
			a = w.send(ctx, b)
			return a.err
		})
		switch {
		case !decided:
			w.abandonCommit(b)
			return answer{err: fmt.Errorf("room %s: %w: %w", w.id, room.ErrUnknown, err)}
		case errors.Is(err, store.ErrStale) && b.hold.Token != "":
			// a token that may be on its way twice is not used again
			w.abandonCommit(b)
			return answer{err: store.ErrLost}
		}
	}
	if errors.Is(a.err, store.ErrRefused) {
		w.abandonCommit(b)
		a.err = unavailable(w.id, a.err)
	}
	return a
}

// holdEnded tells the Trace of the hold of a batch, which ends now. err is that of its commit.
func (w *worker) holdEnded(b *batch, err error) {
	trace := w.pool.opts.Trace
	if trace.Acquired != nil {
		wanted := b.requests[0].deadline.Add(-w.pool.opts.LockWait)
		if w.lookahead.ended.After(wanted) {
			wanted = w.lookahead.ended
		}
		trace.Acquired(b.began.Sub(wanted))
	}
	var lost error
	switch {
	case errors.Is(err, store.ErrLost):
		lost = ErrStaleCommit
	case errors.Is(err, room.ErrUnknown):
		lost = ErrHoldUnknown
	}
	w.lookahead.holdEnded()
	if trace.Ended != nil {
		trace.Ended(w.lookahead.ended.Sub(b.began), len(b.requests), lost)
	}
}

// call calls a function of a Trace, if there is one.
func call(fn func()) {
	if fn != nil {
		fn()
	}
}
