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
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/feed"
	"roomd/room/coordinator/internal/lobby"
	"roomd/room/coordinator/internal/relay"
	"roomd/room/coordinator/internal/store"
	"roomd/room/coordinator/internal/timers"
	"roomd/room/ratelog"
)

const (
	// copyIdle is how long a quiet room's copy is kept.
	copyIdle = time.Minute

	// emptyCopySize is what a copy without members counts for.
	emptyCopySize = 8

	// callerPatience bounds how long a caller that serves itself waits for Redis, also when its context has ended.
	callerPatience = 300 * time.Millisecond
)

// workers are the workers of all rooms that are used on this node, or were of late.
type workers struct {
	opts    Options
	life    lifetime
	locks   *lockmgr.Manager
	store   *store.Store
	feeds   *feed.Feeds
	node    *cluster.Node
	lobby   *lobby.Lobby
	timers  *timers.Timers
	relay   *relay.Relay
	logs    workerLogs
	timeout *redisconn.SharedTimeout // of requests that have to end within a lock's TTL
	prompt  *redisconn.SharedTimeout // of requests for which a caller waits by itself

	requests sync.Pool      // of *request whose outcome was received
	busy     sync.WaitGroup // goroutines of workers

	mu      sync.Mutex
	byRoom  map[string]*worker // guarded by mu
	idle    list.List          // guarded by mu: of idle workers, longest first
	copies  int                // guarded by mu: the sum of their sizes
	sweeper *time.Timer        // guarded by mu: closes idle workers; nil if there are none
	closed  bool               // guarded by mu
}

// workerLogs are of what an outage of Redis, or a client, can cause any number of times.
type workerLogs struct{ replies, stale, epochs, partial, unheard, unlogged, endless *ratelog.Log }

// newWorkers returns workers without feeds, node and timers, which run actions by them.
func newWorkers(opts Options, life lifetime, locks *lockmgr.Manager, st *store.Store, lobby *lobby.Lobby, relay *relay.Relay, set *ratelog.Set) *workers {
	ws := &workers{
		opts: opts, life: life, locks: locks, store: st, lobby: lobby, relay: relay, byRoom: make(map[string]*worker),
		timeout: redisconn.NewSharedTimeout(life.life, opts.LockTTL/2), // then there is time to ask what came of it
		prompt:  redisconn.NewSharedTimeout(life.life, min(callerPatience, opts.LockTTL/4)),
		logs: workerLogs{
			replies:  set.Warn("no reply to a commit; sending it again to learn its outcome"),
			stale:    set.Warn("a stale commit was refused; its actions run again under a new hold"),
			epochs:   set.Warn("commits were lost; the room's new epoch begins with the next action"),
			partial:  set.Warn("rooms begin new epochs with what is there: Redis was restarted or replaced, or has lost some of them"),
			unheard:  set.Error("Redis takes commits, but not their events: other nodes hear nothing of what happens here"),
			unlogged: set.Error("Redis takes commits, but not their entries in the journal"),
			endless:  set.Warn("a room is busy until somebody deletes its lock, which has no TTL: another program has written it"),
		},
	}
	ws.requests.New = newRequest
	return ws
}

// Run runs an action that was checked.
func (ws *workers) Run(ctx context.Context, id string, a room.Action) (room.Result, error) {
	return ws.runSince(ctx, id, a, time.Now())
}

// Renew begins a new epoch if the room is still in this one. With Lost and KeptNames it is what feeds do for
// a room of which Redis has lost something.
func (ws *workers) Renew(ctx context.Context, id, epoch string) error {
	_, err := ws.Run(ctx, id, room.Renew{Epoch: epoch})
	if err != nil && ctx.Err() == nil {
		ws.logs.epochs.Happened(err, "room", id)
	}
	return err
}

// Lost removes the members for whom no session answers from a room of which Redis has lost commits.
func (ws *workers) Lost(ctx context.Context, now *room.Room) { ws.node.RemoveUnanswered(ctx, now) }

// KeptNames returns the names of this node whose members nobody has removed until now.
func (ws *workers) KeptNames() []string { return ws.node.KeptNames() }

// runSince is Run for a caller that knows the time.
func (ws *workers) runSince(ctx context.Context, id string, a room.Action, now time.Time) (room.Result, error) {
	r := ws.requests.Get().(*request)
	r.set(a, ws.timers.Now(), now, ws.opts.LockWait)
	return ws.await(ctx, id, r)
}

// runAccepted is like Run, but is not refused after Close: it finishes what was accepted, by begin, before.
func (ws *workers) runAccepted(ctx context.Context, id string, a room.Action) (room.Result, error) {
	r := newRequest().(*request)
	r.set(a, ws.timers.Now(), time.Now(), ws.opts.LockWait)
	r.accepted = true
	return ws.await(ctx, id, r)
}

// await enqueues a request, and returns what it came to.
func (ws *workers) await(ctx context.Context, id string, r *request) (room.Result, error) {
	if err := ctx.Err(); err != nil {
		return room.Result{}, fmt.Errorf("did not wait for room %s: %w", id, context.Cause(ctx))
	}
	w, first, err := ws.enqueue(id, r)
	if err != nil {
		return room.Result{}, err
	}
	if first {
		w.serveCaller(ctx)
	}
	select {
	case o := <-r.done:
		ws.requests.Put(r)
		return o.result, o.err
	default:
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

// checkTTL logs it if the lock of a room that is busy has no TTL: then the room stays so.
func (ws *workers) checkTTL(id string) {
	key := ws.locks.Key(id)
	if ttl, err := ws.store.Client.PTTL(ws.prompt.Context(), key).Result(); err == nil && ttl == -1 {
		ws.logs.endless.Happened(nil, "key", key)
	}
}

// size returns how many workers there are.
func (ws *workers) size() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.byRoom)
}

// enqueue puts a request at the end of its room's queue. If nobody serves that, first is true, and the caller has to
// see to it, by serve or serveCaller.
func (ws *workers) enqueue(id string, r *request) (w *worker, first bool, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed && !r.accepted {
		return nil, false, room.ErrClosed
	}
	w, open := ws.byRoom[id]
	if !open {
		if w, err = ws.openLocked(id); err != nil {
			return nil, false, err
		}
	}
	w.queue.push(r)
	if first = !open || w.idleAt != nil; first {
		if open {
			ws.wakeLocked(w)
		}
		w.copy.Use()
		ws.busy.Add(1)
	}
	return w, first, nil
}

// openLocked makes a worker for a room that has none.
func (ws *workers) openLocked(id string) (*worker, error) {
	keys := ws.store.KeysOf(id)
	slot, err := ws.locks.Slot(id, keys.Held...)
	if err != nil {
		return nil, err
	}
	w := &worker{ws: ws, id: id, keys: keys, slot: slot, registration: ws.node.Registration(id)}
	w.ask = w.askForLock
	ws.byRoom[id] = w
	return w, nil
}

// closeLocked ends a worker that has no goroutine.
func (ws *workers) closeLocked(w *worker) {
	delete(ws.byRoom, w.id)
	w.slot.Close()
	w.copy.Stop()
	w.registration.Close()
}

// sleepLocked makes a worker idle. While there are too many copies it removes the workers
// that have been idle for longest.
func (ws *workers) sleepLocked(w *worker) {
	w.since, w.size = time.Now(), emptyCopySize
	if w.copy.Room != nil {
		w.size += w.copy.Room.Count()
	}
	w.copy.Release()
	w.idleAt = ws.idle.PushBack(w)
	ws.copies += w.size
	for ws.copies > ws.opts.MaxCopies && ws.idle.Len() > 0 {
		ws.removeLocked(ws.idle.Front().Value.(*worker))
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

// sweep removes the workers that have been idle for copyIdle.
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
		ws.removeLocked(w)
	}
}

// removeLocked ends an idle worker, and has the node's records in its room deleted if it has no members
// there.
func (ws *workers) removeLocked(w *worker) {
	ws.wakeLocked(w)
	if ws.closed {
		return // close ends it
	}
	ws.closeLocked(w)
	ws.busy.Go(func() { _ = ws.node.Reconcile(w.id) }) // the node tries again
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

// list returns the workers that are busy, and how many are idle.
func (ws *workers) list() (busy []*worker, idle int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	busy = make([]*worker, 0, len(ws.byRoom)-ws.idle.Len())
	for _, w := range ws.byRoom {
		if w.idleAt == nil {
			busy = append(busy, w)
		}
	}
	return busy, ws.idle.Len()
}
