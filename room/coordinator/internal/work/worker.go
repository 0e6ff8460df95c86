package work

import (
	"container/ring"
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/feed"
	"roomd/room/coordinator/internal/nodes"
	"roomd/room/coordinator/internal/store"
)

// worker serves one room on this node, hold after hold. As long as requests wait in the queue, a goroutine applies
// them to the copy of the room and commits them (apply.go), without the lock or after acquiring it (lock.go). Then
// the worker is idle and keeps the copy for a while, so that the next action need not read the room.
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
	copy         feed.Replica // the room; follows its events while other nodes write to the room, too
	registration *cluster.Registration
	// the last commit id that enough replicas are known to have
	acked string
	ask   func(ctx context.Context) (held bool, err error) // askForLock, bound once

	place ring.Ring // guarded by pool.mu: its element of pool.idle, with the worker as its value
	size  int       // guarded by pool.mu: its share of pool.copies; 0 while it is busy
	since time.Time // guarded by pool.mu: when it became idle
}

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
			if b := w.nextBatch(); b != nil {
				w.finish(b, w.commit(b))
			}
		default:
			w.acquire()
		}
	}
}

// serveCaller serves the queue in the goroutine of the caller whose request began it, which saves starting and waking
// another. After a conflict it commits again. A goroutine takes over if the commit fails or Redis does not answer
// soon, and for requests that came meanwhile. ctx is the caller's.
func (w *worker) serveCaller(ctx context.Context) {
	defer func() {
		// a caller that recovered from the panic would leave the room without a worker
		if reason := recover(); reason != nil {
			go panic(reason)
			select {}
		}
		w.pool.running.Done()
	}()
	if w.status.inRedis() || w.pool.opts.Replicas > 0 {
		w.pool.running.Go(w.serve)
		return
	}
	for again := true; again; {
		b := w.nextBatch()
		if b == nil {
			break
		}
		prompt := w.pool.prompt.ContextAt(b.sent)
		a := w.send(prompt, b)
		conflict := errors.Is(a.err, store.ErrConflict)
		if a.err != nil && !conflict {
			w.pool.running.Go(func() {
				last := a                                                      // not written, or in doubt
				if errors.Is(a.err, store.ErrRefused) && prompt.Err() != nil { // refused for lack of time
					last = w.send(w.pool.timeout.Context(), b)
				}
				w.finish(b, w.decide(b, last))
				w.serve()
			})
			return
		}
		w.finish(b, a)
		again = conflict && ctx.Err() == nil
	}
	if !w.finished() {
		w.pool.running.Go(w.serve)
	}
}

// finished makes the worker idle if nothing waits and there is no token to give up, and reports whether it did.
func (w *worker) finished() bool {
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	if w.status.inRedis() || !w.queue.empty() {
		return false
	}
	w.pool.sleepLocked(w)
	return true
}

// ready makes sure that the registration is valid, so that the node may write to the room. If that is impossible, ready
// fails the waiting requests and returns false.
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

// failLate fails the requests that have waited longer than Options.LockWait, or all once the coordinator has closed.
func (w *worker) failLate() {
	switch {
	case w.pool.life.Err() != nil:
		w.queue.fail(w.pool.late(w.id))
	case w.queue.overdue():
		w.queue.failOverdue(w.pool.late(w.id))
	}
}

// answer is the outcome of sending a commit: see [store.Store.Send].
type answer struct {
	at  store.NextToken
	now *room.Room
	err error
}

// send sends a commit once. Before the first time it announces the deadlines that the commit sets.
func (w *worker) send(ctx context.Context, b *batch) (a answer) {
	if b.announced != b.commit {
		if err := w.pool.announce(ctx, b.commit); err != nil {
			return answer{err: err}
		}
		b.announced = b.commit
	}
	a.at, a.now, a.err = w.pool.store.Send(ctx, w.slot, b.commit)
	return a
}

// announce tells the index of timers which deadlines a commit sets. It fails with store.ErrRefused.
func (p *Pool) announce(ctx context.Context, c *store.Commit) error {
	if c.Event == nil {
		return nil
	}
	if err := p.Timers.AnnounceDeadlines(ctx, c.ID, c.Event.Updates); err != nil {
		return fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
	return nil
}

// commit writes a batch, and releases the lock in the same step, if the worker has it. It fails with store.ErrLost,
// store.ErrQueued, store.ErrStale, store.ErrConflict, ErrUnavailable or ErrUnknown.
func (w *worker) commit(b *batch) answer {
	return w.decide(b, w.send(w.pool.timeout.Context(), b))
}

// decide returns the final answer to the commit of a batch that was sent once and answered by a. While a is in
// doubt it sends the commit again, until LockTTL after b.sent: then no copy of it can take effect.
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
			b.abandon(w.slot)
			return answer{err: fmt.Errorf("room %s: %w: %w", w.id, room.ErrUnknown, err)}
		case errors.Is(err, store.ErrStale) && b.hold.Token != "":
			// a token that may be on its way twice is not used again
			b.abandon(w.slot)
			return answer{err: store.ErrLost}
		}
	}
	if errors.Is(a.err, store.ErrRefused) {
		b.abandon(w.slot)
		a.err = unavailable(w.id, a.err)
	}
	return a
}

// holdEnded tells the Trace that the hold of a batch ends now. err is its commit's error.
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
		lost = nodes.ErrStaleCommit
	case errors.Is(err, room.ErrUnknown):
		lost = nodes.ErrHoldUnknown
	}
	w.lookahead.holdEnded()
	if trace.Ended != nil {
		trace.Ended(w.lookahead.ended.Sub(b.began), len(b.requests), lost)
	}
}

func call(fn func()) {
	if fn != nil {
		fn()
	}
}

// status is a worker's state with regard to its room's lock and other nodes that use the room:
//
//	status         the worker's token               what the worker does next
//	shared         is not in Redis                  commits where the lock is free; without a copy it asks for the lock
//	alone          is not in Redis; the last        the same
//	               hold met no other node
//	waiting        waits in the queue, or may       waits for the lock
//	holding        has the lock                     commits under the lock
//	holdingAlone   has the lock, nobody waited      the same, and leaves no token in the queue
//
//	             asked                  granted
//	shared  ──────────────► waiting ─────────────► holding
//	  │ ▲                    ▲   │ grantedAtOnce
//	  │ │ metOthers    asked │   ▼
//	  ▼ │ metNobody          │  holdingAlone
//	alone  ──────────────────┘
//
// A token is spent by a commit or by giving it up: waiting and holding lead to shared, holdingAlone to alone. kept
// leads back: the commit passed the lock to the worker's next token. The whole table is transitions.
type status int

const (
	shared status = iota
	alone
	waiting
	holding
	holdingAlone
)

// input is an event that may change a status.
type input int

const (
	asked         input = iota // the worker asked for the lock, or its commit was queued
	granted                    // the token got the lock, after others had it
	grantedAtOnce              // the token got the lock, which was free
	spent                      // a commit used the token, or it was given up
	kept                       // a commit passed the lock to the next token, or took the lock
	metNobody                  // a commit without the lock was written
	metOthers                  // a commit without the lock was refused

	inputs
)

// transitions maps an input and a status to the next status. A status without an entry stays as it is.
var transitions = [inputs]map[status]status{
	asked:         {shared: waiting, alone: waiting, holding: waiting, holdingAlone: waiting},
	granted:       {waiting: holding},
	grantedAtOnce: {waiting: holdingAlone},
	spent:         {waiting: shared, holding: shared, holdingAlone: alone},
	kept:          {shared: holding, alone: holdingAlone},
	metNobody:     {shared: alone},
	metOthers:     {alone: shared},
}

func (s *status) take(in input) {
	if next, changes := transitions[in][*s]; changes {
		*s = next
	}
}

// holds reports whether the worker believes that its token has the lock.
func (s status) holds() bool { return s == holding || s == holdingAlone }

// inRedis reports whether the token waits for or has the lock, so that the worker has to give it up.
func (s status) inRedis() bool { return s == waiting || s.holds() }

// conflicts records the worker's encounters with other writers of its room. Two nodes whose players share a table
// write by turns, and a commit that finds another version has usually met one that came a moment earlier. So the
// worker applies and commits again, still without the lock: a lock would make the others queue, and each of them
// would have to be woken. As in optimistic concurrency control (Kung and Robinson, 1981), a writer that has failed a
// few times is let through: it acquires the lock.
type conflicts struct {
	inARow     int
	eventsLost bool   // the event of a conflicting commit did not come, and none has since
	lostEpoch  string // an epoch that has lost commits, so the next commit must end it; "" for none
}

const (
	// MaxConflicts is how many conflicts in a row a worker accepts before its commit acquires the lock.
	MaxConflicts = 3

	// EventPatience is how long a worker waits for the event of a conflicting commit before it reads the room.
	EventPatience = 20 * time.Millisecond
)

// next returns what a commit does on a conflict. follows says that the copy follows the room's events.
func (c *conflicts) next(follows bool) store.OnConflict {
	switch {
	case c.inARow >= MaxConflicts:
		return store.LockOnConflict
	case follows && !c.eventsLost:
		return store.WaitOnConflict
	}
	return store.ReadOnConflict
}

// lookahead decides whether to queue a token before an action waits. On a busy room that nodes share, the script that
// releases the lock also queues the node's next token. When the token gets the lock, an action has usually come, and
// need not ask for the lock: a hold then takes one request instead of two. The zero value does not queue.
type lookahead struct {
	pays   bool
	queued time.Time     // when the token entered the queue
	waited time.Duration // how long the last token waited for the lock
	ended  time.Time     // when the last hold ended
}

// missing records that the worker has to ask for the lock, and decides whether to queue earlier from now on: that pays
// if a token queued at the end of the last hold would still be waiting now.
func (l *lookahead) missing() {
	l.queued = time.Now()
	l.pays = l.queued.Sub(l.ended) <= l.waited
}

func (l *lookahead) holdEnded() {
	l.ended = time.Now()
	l.queued = l.ended
}

// granted records how long the token waited for the lock.
func (l *lookahead) granted() { l.waited = time.Since(l.queued) }
