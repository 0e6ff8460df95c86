package coordinator

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
	"roomd/room"
)

const (
	// copyIdle is how long a quiet room's copy is kept.
	copyIdle = time.Minute

	// emptyCopySize is what a copy without members counts for.
	emptyCopySize = 8
)

// workers are the workers of all rooms that are used on this node, or were of late.
type workers struct {
	opts       Options
	lifetime   lifetime
	locks      *lockmgr.Manager
	store      *store
	feeds      *feeds
	membership *membership
	episodes   *episodes
	timeout    *redisconn.SharedTimeout // of requests that have to end within a lock's TTL

	requests sync.Pool      // of *request whose outcome was received
	busy     sync.WaitGroup // goroutines of workers

	mu      sync.Mutex
	byRoom  map[string]*worker // guarded by mu
	idle    list.List          // guarded by mu: of idle workers, longest first
	copies  int                // guarded by mu: the sum of their sizes
	sweeper *time.Timer        // guarded by mu: closes idle workers; nil if there are none
	closed  bool               // guarded by mu
}

func newWorkers(c *Coordinator) *workers {
	ws := &workers{
		opts: c.opts, lifetime: c.lifetime, locks: c.locks, store: c.store, feeds: c.feeds,
		membership: c.membership, episodes: c.episodes, byRoom: make(map[string]*worker),
		timeout: redisconn.NewSharedTimeout(c.lifetime.life, c.opts.LockTTL/2), // then there is time to ask what came of it
	}
	ws.requests.New = newRequest
	return ws
}

// run runs an action that was checked.
func (ws *workers) run(ctx context.Context, id string, a room.Action) (room.Result, error) {
	return ws.runSince(ctx, id, a, time.Now())
}

// runSince is run for a caller that knows the time.
func (ws *workers) runSince(ctx context.Context, id string, a room.Action, now time.Time) (room.Result, error) {
	r := ws.requests.Get().(*request)
	r.set(a, now, ws.opts.LockWait)
	return ws.await(ctx, id, r)
}

// conclude is run for the last part of what began, by begin, before Close.
func (ws *workers) conclude(ctx context.Context, id string, a room.Action) (room.Result, error) {
	r := newRequest().(*request)
	r.set(a, time.Now(), ws.opts.LockWait)
	r.concludes = true
	return ws.await(ctx, id, r)
}

// await enqueues a request, and returns what it came to.
func (ws *workers) await(ctx context.Context, id string, r *request) (room.Result, error) {
	w, err := ws.enqueue(id, r)
	if err != nil {
		return room.Result{}, err
	}
	select {
	case o := <-r.done:
		ws.requests.Put(r)
		return o.result, o.err
	case <-ctx.Done():
	}
	if w.queue.abandon(r) {
		return room.Result{}, fmt.Errorf("gave up waiting for room %s: %w", id, context.Cause(ctx))
	}
	select {
	case o := <-r.done:
		return o.result, o.err
	default:
		return room.Result{}, fmt.Errorf("gave up while room %s was written: %w: %w", id, room.ErrUnknown, context.Cause(ctx))
	}
}

// size returns how many workers there are.
func (ws *workers) size() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.byRoom)
}

// enqueue puts a request at the end of its room's queue, and makes sure that a goroutine
// serves it.
func (ws *workers) enqueue(id string, r *request) (*worker, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed && !r.concludes {
		return nil, room.ErrClosed
	}
	w, open := ws.byRoom[id]
	if !open {
		var err error
		if w, err = ws.openLocked(id); err != nil {
			return nil, err
		}
	}
	w.queue.push(r)
	switch {
	case w.idleAt != nil:
		ws.wakeLocked(w)
		ws.busy.Go(w.serve)
	case !open:
		ws.busy.Go(w.serve)
	}
	return w, nil
}

// openLocked makes a worker for a room that has none.
func (ws *workers) openLocked(id string) (*worker, error) {
	keys := ws.store.keysOf(id)
	slot, err := ws.locks.Slot(id, keys.held...)
	if err != nil {
		return nil, err
	}
	w := &worker{workers: ws, id: id, keys: keys, slot: slot}
	w.ask = w.askForLock
	ws.byRoom[id] = w
	return w, nil
}

// closeLocked ends a worker that has no goroutine.
func (ws *workers) closeLocked(w *worker) {
	delete(ws.byRoom, w.id)
	w.slot.Close()
	w.copy.unfollow()
}

// sleepLocked makes a worker idle. While there are too many copies it retires the workers
// that have been idle for longest.
func (ws *workers) sleepLocked(w *worker) {
	w.since, w.size = time.Now(), emptyCopySize
	if w.copy.room != nil {
		w.size += w.copy.room.Count()
	}
	w.idleAt = ws.idle.PushBack(w)
	ws.copies += w.size
	for ws.copies > ws.opts.MaxCopies && ws.idle.Len() > 0 {
		ws.retireLocked(ws.idle.Front().Value.(*worker))
	}
	if ws.sweeper == nil && ws.idle.Len() > 0 && !ws.closed {
		ws.sweeper = time.AfterFunc(copyIdle, ws.sweep)
	}
}

// wakeLocked makes an idle worker busy.
func (ws *workers) wakeLocked(w *worker) {
	ws.idle.Remove(w.idleAt)
	ws.copies -= w.size
	w.idleAt = nil
}

// sweep retires the workers that have been idle for copyIdle.
func (ws *workers) sweep() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.sweeper = nil
	for ws.idle.Len() > 0 {
		w := ws.idle.Front().Value.(*worker)
		if wait := copyIdle - time.Since(w.since); wait > 0 {
			if !ws.closed {
				ws.sweeper = time.AfterFunc(wait, ws.sweep)
			}
			return
		}
		ws.retireLocked(w)
	}
}

// retireLocked has an idle worker do its last piece of work.
func (ws *workers) retireLocked(w *worker) {
	ws.wakeLocked(w)
	if ws.closed {
		return // close ends it
	}
	ws.busy.Go(func() {
		_ = w.retire() // registration tries again
		w.serve()
	})
}

// visit compares the records of this node in a room with the room. If the room has a
// worker it is in use, and visit only records again that the node may have members there.
func (ws *workers) visit(id string) error {
	ws.mu.Lock()
	_, open := ws.byRoom[id]
	var compared chan error
	if !open && !ws.closed {
		w, err := ws.openLocked(id)
		if err != nil {
			ws.mu.Unlock()
			return err
		}
		compared = make(chan error, 1)
		ws.busy.Go(func() {
			compared <- w.retire()
			w.serve()
		})
	}
	ws.mu.Unlock()
	if compared != nil {
		return <-compared
	}
	who, _ := ws.membership.lease.holder()
	return ws.membership.registration.note(ws.lifetime.life, who, noteAdd, id)
}

// begin makes close wait until end is called. It fails with room.ErrClosed.
func (ws *workers) begin() (end func(), err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return nil, room.ErrClosed
	}
	ws.busy.Add(1)
	return ws.busy.Done, nil
}

// refuse makes all further actions fail.
func (ws *workers) refuse() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
}

// close waits for the workers, and ends them. refuse comes first.
func (ws *workers) close() {
	ws.busy.Wait()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.sweeper != nil {
		ws.sweeper.Stop()
	}
	for _, w := range ws.byRoom {
		ws.closeLocked(w)
	}
}
