// Package work runs actions on rooms. An action waits in its room's queue (queue.go). A worker serves the queue
// (worker.go), with or without the room's lock (lock.go). It applies the actions to its copy of the room (apply.go),
// sends the commit, and repeats it if Redis does not answer (retry.go). A move does the same with two rooms and their
// locks (move.go, halves.go).
//
// Start with [New] and [Pool.Run]. A Pool also creates the feeds, node, timers, lobby and relay, and informs them of
// commits.
//
// If a room is idle and the node knows it, the caller's goroutine runs its action. A goroutine of the Pool serves a
// room in which further actions wait, or whose commit Redis does not answer soon. [Pool.Close] returns when all of
// them have ended.
package work

import (
	"container/ring"
	"context"
	"fmt"
	"sync"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/pubsub"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/feed"
	"roomd/room/coordinator/internal/lobby"
	"roomd/room/coordinator/internal/nodes"
	"roomd/room/coordinator/internal/relay"
	"roomd/room/coordinator/internal/store"
	"roomd/room/coordinator/internal/timers"
	"roomd/room/ratelog"
)

// CallerPatience bounds how long a caller that serves itself waits for Redis, even after its context has ended.
const CallerPatience = 300 * time.Millisecond

// Options configure a [Pool]. They have no defaults.
type Options struct {
	Rules                       room.Rules
	LockTTL, LockPoll, LockWait time.Duration
	Replicas                    int // how many replicas must have a commit before it counts
	MaxBatch                    int // how many actions may share a commit
	MaxCopies                   int // total size of the copies of idle rooms
	Feed                        int // about how many entries the feed keeps
	Node                        cluster.Options
	Trace                       *nodes.Trace
}

// Pool has the workers of all rooms in recent use, and the recipients of commits. It is safe for concurrent use.
type Pool struct {
	Feeds  *feed.Feeds
	Node   *cluster.Node
	Lobby  *lobby.Lobby
	Timers *timers.Timers
	Relay  *relay.Relay

	opts    Options
	open    context.Context
	life    context.Context
	locks   *lockmgr.Manager
	store   *store.Store
	logs    logs
	timeout *redisconn.SharedTimeout // of requests that must end within a lock's TTL
	prompt  *redisconn.SharedTimeout // of requests that a caller's goroutine sends

	requests sync.Pool      // of *request whose outcome was received
	running  sync.WaitGroup // goroutines of workers, and moves

	mu      sync.Mutex
	byRoom  map[string]*worker // guarded by mu
	idle    ring.Ring          // guarded by mu: its Next are the idle workers, the longest idle first
	copies  int                // guarded by mu: the sum of their sizes; 0 if there are none
	sweeper *time.Timer        // guarded by mu: closes idle workers; nil if there are none
	closed  bool               // guarded by mu
}

// logs are rate-limited: an outage of Redis or a client can cause their messages any number of times.
type logs struct{ replies, stale, epochs, partial, unheard, unlogged, endless *ratelog.Log }

// New returns a Pool that sends nothing yet. open ends when the node begins to close, life when it stops waiting.
func New(open, life context.Context, hub *pubsub.Hub, locks *lockmgr.Manager, st *store.Store, opts Options,
	set *ratelog.Set) *Pool {
	p := &Pool{
		opts: opts, open: open, life: life, locks: locks, store: st, byRoom: make(map[string]*worker),
		Lobby: lobby.New(open, life, st, opts.Rules.Seats(), opts.LockTTL, set),
		Relay: relay.New(open, life, st, opts.Feed, set),
		// then half of the TTL is left to ask for the outcome
		timeout: redisconn.NewSharedTimeout(life, opts.LockTTL/2),
		prompt:  redisconn.NewSharedTimeout(life, min(CallerPatience, opts.LockTTL/4)),
		logs: logs{
			replies:  set.Warn("no reply to a commit; sending it again to learn its outcome"),
			stale:    set.Warn("a stale commit was refused; its actions run again under a new hold"),
			epochs:   set.Warn("commits were lost; the room's new epoch begins with the next action"),
			partial:  set.Warn("rooms begin new epochs with what is there: Redis was restarted or replaced, or has lost some of them"),
			unheard:  set.Error("Redis takes commits, but not their events: other nodes hear nothing of what happens here"),
			unlogged: set.Error("Redis takes commits, but not their entries in the journal"),
			endless:  set.Warn("a room is busy until somebody deletes its lock, which has no TTL: another program has written it"),
		},
	}
	p.requests.New = newRequest
	p.Feeds = feed.New(hub, st, p, opts.Trace.Resynced, set) // Feeds, Timers and Node run actions on the Pool, too
	p.Timers = timers.New(open, life, st, p, max(time.Minute, 2*(opts.LockWait+2*opts.LockTTL)), set)
	opts.Node.Died = p.Timers.Died
	p.Node = cluster.New(open, life, st, p, p.Feeds, set, opts.Node)
	return p
}

// Run runs a checked action, and returns when it is committed or has failed; see Coordinator.Do.
func (p *Pool) Run(ctx context.Context, id string, a room.Action) (room.Result, error) {
	return p.RunSince(ctx, id, a, time.Now())
}

// Renew ends an epoch of a room, if the room is still in it. Renew, Lost and KeptNames implement feed.Repairs.
func (p *Pool) Renew(ctx context.Context, id, epoch string) error {
	_, err := p.Run(ctx, id, room.Upkeep{Renew: epoch})
	if err != nil && ctx.Err() == nil {
		p.logs.epochs.Happened(err, "room", id)
	}
	return err
}

// Lost removes this node's members whose sessions do not belong in a room, after Redis has lost commits of it.
func (p *Pool) Lost(ctx context.Context, now *room.Room) { p.Node.RemoveUnanswered(ctx, now) }

// KeptNames returns this node's name, and those earlier names whose members nobody has removed yet.
func (p *Pool) KeptNames() []string { return p.Node.KeptNames() }

// RunSince is Run for a caller that has read this node's clock: now is the present time.
func (p *Pool) RunSince(ctx context.Context, id string, a room.Action, now time.Time) (room.Result, error) {
	r := p.requests.Get().(*request)
	r.set(a, p.Timers.Now(), now, p.opts.LockWait)
	return p.await(ctx, id, r)
}

// runAccepted is like Run, but is not refused after Close: it finishes an operation that begin has accepted.
func (p *Pool) runAccepted(ctx context.Context, id string, a room.Action) (room.Result, error) {
	r := newRequest().(*request)
	r.set(a, p.Timers.Now(), time.Now(), p.opts.LockWait)
	r.accepted = true
	return p.await(ctx, id, r)
}

func (p *Pool) await(ctx context.Context, id string, r *request) (room.Result, error) {
	if err := ctx.Err(); err != nil {
		return room.Result{}, fmt.Errorf("did not wait for room %s: %w", id, context.Cause(ctx))
	}
	w, first, err := p.enqueue(id, r)
	if err != nil {
		return room.Result{}, err
	}
	if first {
		w.serveCaller(ctx)
	}
	select {
	case o := <-r.done:
		p.requests.Put(r)
		return o.result, o.err
	default:
	}
	select {
	case o := <-r.done:
		p.requests.Put(r)
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
		return room.Result{}, fmt.Errorf("gave up while room %s was written: %w: %w", id, room.ErrUnknown,
			context.Cause(ctx))
	}
}

// enqueue appends a request to its room's queue. If first, the caller must call serve or serveCaller.
func (p *Pool) enqueue(id string, r *request) (w *worker, first bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed && !r.accepted {
		return nil, false, room.ErrClosed
	}
	w, open := p.byRoom[id]
	if !open {
		if w, err = p.openLocked(id); err != nil {
			return nil, false, err
		}
	}
	w.queue.push(r)
	if first = !open || w.size > 0; first {
		if open {
			p.wakeLocked(w)
		}
		w.copy.Use()
		p.running.Add(1)
	}
	return w, first, nil
}

// begin makes Close wait until end is called. It fails with room.ErrClosed.
func (p *Pool) begin() (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, room.ErrClosed
	}
	p.running.Add(1)
	return p.running.Done, nil
}

// Refuse makes all further actions fail with room.ErrClosed.
func (p *Pool) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// Close waits for the workers and ends them. Call Refuse before.
func (p *Pool) Close() {
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	for _, w := range p.byRoom {
		p.closeLocked(w)
	}
}

// Queue describes a room's queue on this node.
type Queue struct {
	Room    string
	Actions int
	Since   time.Time // when the first of them came
}

// Queues returns the queues of all busy rooms, which can be empty, and the number of idle rooms.
func (p *Pool) Queues() (busy []Queue, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	busy = make([]Queue, 0)
	for _, w := range p.byRoom {
		if w.size == 0 {
			actions, deadline := w.queue.first()
			busy = append(busy, Queue{w.id, actions, deadline.Add(-p.opts.LockWait)})
		}
	}
	return busy, len(p.byRoom) - len(busy)
}

const (
	// CopyIdle is how long an idle room's copy is kept.
	CopyIdle = time.Minute

	// EmptyCopySize is the size of a copy without members; each member adds 1.
	EmptyCopySize = 8
)

func (p *Pool) openLocked(id string) (*worker, error) {
	keys := p.store.KeysOf(id)
	slot, err := p.locks.Slot(id, keys.Held...)
	if err != nil {
		return nil, err
	}
	w := &worker{pool: p, id: id, keys: keys, slot: slot, registration: p.Node.Registration(id)}
	w.ask, w.place.Value = w.askForLock, w
	p.byRoom[id] = w
	return w, nil
}

// closeLocked ends an idle worker.
func (p *Pool) closeLocked(w *worker) {
	delete(p.byRoom, w.id)
	w.slot.Close()
	w.copy.Stop()
	w.registration.Close()
}

// sleepLocked makes a worker idle. While the copies are too large it removes the workers that have been idle longest.
func (p *Pool) sleepLocked(w *worker) {
	w.since, w.size = time.Now(), EmptyCopySize
	if w.copy.Room != nil {
		w.size += w.copy.Room.Count()
	}
	w.copy.Release()
	p.idle.Prev().Link(&w.place)
	p.copies += w.size
	for p.copies > p.opts.MaxCopies {
		p.removeLocked(p.idle.Next().Value.(*worker))
	}
	if p.sweeper == nil && p.copies > 0 && !p.closed {
		p.sweeper = time.AfterFunc(CopyIdle, p.sweep)
	}
}

func (p *Pool) wakeLocked(w *worker) {
	w.place.Prev().Unlink(1)
	p.copies -= w.size
	w.size = 0
}

func (p *Pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeper = nil
	for p.copies > 0 {
		w := p.idle.Next().Value.(*worker)
		if wait := CopyIdle - time.Since(w.since); wait > 0 {
			if !p.closed {
				p.sweeper = time.AfterFunc(wait, p.sweep)
			}
			return
		}
		p.removeLocked(w)
	}
}

// removeLocked ends an idle worker. If the node has no members in its room, the node's records there are deleted.
func (p *Pool) removeLocked(w *worker) {
	p.wakeLocked(w)
	if p.closed {
		return // Close ends the worker
	}
	p.closeLocked(w)
	p.running.Go(func() { _ = p.Node.Reconcile(w.id) }) // after a failure the node tries again
}
