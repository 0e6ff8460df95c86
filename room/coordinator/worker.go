package coordinator

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

// worker serves one room on this node, hold after hold. Its goroutine runs as long as
// something waits in the queue: it applies what waits to the
// copy of the room (apply.go) and commits it (commit.go), by itself or when it has got the lock (lock.go). Then the worker is idle and
// keeps the copy for a while, so that the next action need not read the room.
type worker struct {
	ws    *workers
	id    string
	queue queue
	keys  *store.Keys
	slot  *lockmgr.Slot

	// Used only by the worker's goroutine.
	batch        batch
	copy         feed.Replica // of the room: while other nodes write to it too, it follows their events
	registration *cluster.Registration
	acked        string                                           // the id of the last commit that enough replicas are known to have
	ask          func(ctx context.Context) (held bool, err error) // askForLock
	held         bool                                             // the lock holds the slot's token, as far as we know
	inDoubt      bool                                             // the last request for the lock may have been carried out or not
	inLine       bool                                             // the token waits in Redis, or holds the lock: it has to be given up
	quiet        bool                                             // nobody else was met at the last hold
	singly       int                                              // so many actions are committed one by one, since Redis has no memory for them together
	lookahead    lookahead
	behind       behind
	ends         string    // the epoch that has to end with the next commit, since Redis has lost something of it; or ""
	freed        time.Time // when the last hold ended, if there is a Trace of that

	idleAt *list.Element // guarded by ws.mu: its place in ws.idle; nil while it is busy
	size   int           // guarded by ws.mu: what it counts for while it is idle
	since  time.Time     // guarded by ws.mu: when it became idle
}

// serve runs holds until nothing waits.
func (w *worker) serve() {
	for {
		switch {
		case w.finished():
			return
		case w.queue.overdue():
			w.failLate()
		case w.queue.empty(): // all who waited gave up
			w.abandon()
		case !w.ready():
		case w.held, w.copy.Room != nil && !w.inLine:
			w.hold()
		default:
			w.acquire()
		}
	}
}

// serveCaller runs one batch in the goroutine of a caller, whose request began the queue: nobody else has to be
// started and woken then. What needs more than requests to Redis that are answered soon, and
// what has come meanwhile, gets a goroutine. ctx is the caller's.
func (w *worker) serveCaller(ctx context.Context) {
	defer func() {
		if reason := recover(); reason != nil { // a caller who recovers would leave the room without anybody who serves it
			go panic(reason)
			select {}
		}
		w.ws.busy.Done()
	}()
	if w.inLine || w.ws.opts.Replicas > 0 || !w.registration.Valid() {
		w.ws.busy.Go(w.serve)
		return
	}
	for again := true; again; {
		b := w.nextBatch()
		if b == nil {
			break
		}
		b.sent = time.Now()
		prompt := w.ws.prompt.Context()
		at, now, err := w.ws.store.Send(prompt, w.slot, b.commit)
		behind := errors.Is(err, store.ErrBehind)
		if err != nil && !behind {
			w.ws.busy.Go(func() { w.serveOn(b, prompt, at, now, err) })
			return
		}
		w.finish(b, at, now, err)
		again = behind && ctx.Err() == nil
	}
	if !w.finished() {
		w.ws.busy.Go(w.serve)
	}
}

// serveOn serves after a caller has sent a batch's commit, and it was not done: it was answered so, or failed. The
// caller had only as long as ctx.
func (w *worker) serveOn(b *batch, ctx context.Context, at store.NextToken, now *room.Room, err error) {
	if errors.Is(err, store.ErrRefused) && ctx.Err() != nil { // for want of time
		at, now, err = w.commit(b)
	} else {
		at, now, err = w.decide(b, at, now, err)
	}
	w.finish(b, at, now, err)
	w.serve()
}

// finished makes the worker idle, if nothing waits and there is no lock to give back.
func (w *worker) finished() bool {
	w.ws.mu.Lock()
	defer w.ws.mu.Unlock()
	if w.inLine || !w.queue.empty() {
		return false
	}
	w.ws.sleepLocked(w)
	return true
}

// ready makes sure that the node may write to the room under its name. Otherwise it fails those
// who wait.
func (w *worker) ready() bool {
	if w.registration.Valid() {
		return true
	}
	ctx, end := w.queue.context(w.ws.life.life)
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
		w.queue.fail(w.unavailable(err))
	}
	return false
}

// failLate fails those who have waited for the lock for longer than Options.LockWait: the
// room is busy. When the coordinator is closed it fails all.
func (w *worker) failLate() {
	if w.ws.life.life.Err() != nil {
		w.queue.fail(room.ErrClosed)
		return
	}
	if w.queue.failOverdue(room.Refuse(room.ErrBusy, "room %s is busy: its lock could not be had within %v", w.id, w.ws.opts.LockWait)) > 0 {
		w.ws.busy.Go(func() { w.ws.checkTTL(w.id) })
	}
}

// unavailable wraps what Redis, or the way there, failed with.
func (w *worker) unavailable(err error) error {
	return fmt.Errorf("room %s: %w: %w", w.id, room.ErrUnavailable, err)
}
