package work

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"roomd/room"
)

// request is an action that waits for its room, or is being run.
type request struct {
	action   room.Action
	at       int64        // when it was asked for, in ms since 1970
	deadline time.Time    // when waiting for the lock becomes ErrBusy
	done     chan outcome // takes one outcome, never blocks
	accepted bool         // it belongs to what was accepted before Close
	unshared bool         // guarded by queue.mu: its commit has no other action
	gone     bool         // guarded by queue.mu: the caller gave up
	inBatch  bool         // guarded by queue.mu: it is part of a hold
}

// outcome is what a request came to.
type outcome struct {
	result room.Result
	err    error
}

func newRequest() any { return &request{done: make(chan outcome, 1)} }

// set makes a request new. at is the time by the clock that all nodes share: a node's own may be set wrong.
func (r *request) set(a room.Action, at int64, now time.Time, wait time.Duration) {
	*r = request{action: a, at: at, deadline: now.Add(wait), done: r.done}
}

func (r *request) fail(err error) { r.done <- outcome{err: err} }

// queue is what waits for one room on this node, in order of arrival. The zero value is
// empty.
type queue struct {
	mu      sync.Mutex
	waiting []*request         // guarded by mu
	stop    context.CancelFunc // guarded by mu: ends the wait for the lock, nil if nobody waits for it
	users   map[string]bool    // guarded by mu: those of the batch that dequeue is making
}

// push puts a request at the end.
func (q *queue) push(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, r)
}

func (q *queue) empty() bool {
	actions, _ := q.first()
	return actions == 0
}

// abandon removes a request whose caller gave up, and reports whether it was
// still waiting, so that it has no effect. When nobody waits any more, neither
// does the node.
func (q *queue) abandon(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.gone = true
	if r.inBatch {
		return false
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *request) bool { return w == r })
	if len(q.waiting) == 0 && q.stop != nil {
		q.stop()
	}
	return true
}

// dequeue moves the next batch from the queue to the end of into: the first actions, at most max, and at most one of
// each user, so that every answer can show the room after the whole batch and still contain what the action did. For
// the same reason an action that concerns several users is a batch of its own. more reports whether others wait
// behind it.
func (q *queue) dequeue(into []*request, max int) (batch []*request, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(1, len(q.waiting))
	if max > 1 && len(q.waiting) > 1 {
		n = q.differingLocked(max)
	}
	for _, r := range q.waiting[:n] {
		r.inBatch = true
	}
	batch = append(into, q.waiting[:n]...)
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch, len(q.waiting) > 0
}

// differingLocked returns how many of the first requests are of different users, at most
// max.
func (q *queue) differingLocked(max int) (n int) {
	if q.users == nil {
		q.users = make(map[string]bool)
	}
	clear(q.users)
	for n < len(q.waiting) && n < max {
		user, unshared := room.Subject(q.waiting[n].action)
		if unshared || q.waiting[n].unshared {
			return cmp.Or(n, 1)
		}
		if q.users[user] {
			break
		}
		q.users[user] = true
		n++
	}
	return n
}

// requeue lets a batch wait again, ahead of all others, without the requests whose callers gave up. If unshared is
// true, each of them gets a commit of its own.
func (q *queue) requeue(batch []*request, unshared bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch = slices.DeleteFunc(batch, func(r *request) bool { return r.gone })
	for _, r := range batch {
		r.inBatch, r.unshared = false, r.unshared || unshared
	}
	q.waiting = slices.Insert(q.waiting, 0, batch...)
}

// fail ends the wait of all requests with err.
func (q *queue) fail(err error) { q.failIf(err, func(*request) bool { return true }) }

// failOverdue ends the wait of the requests whose deadline has passed with err.
func (q *queue) failOverdue(err error) {
	now := time.Now()
	q.failIf(err, func(r *request) bool { return !now.Before(r.deadline) })
}

func (q *queue) failIf(err error, fails func(*request) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(r *request) bool {
		if !fails(r) {
			return false
		}
		r.inBatch = true
		r.fail(err)
		return true
	})
}

// context returns a context for waiting for the lock on behalf of all requests: it ends with life, when the first of
// them is overdue, or when all callers gave up.
func (q *queue) context(life context.Context) (context.Context, context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	deadline := time.Now()
	if len(q.waiting) > 0 {
		deadline = q.waiting[0].deadline
	}
	ctx, cancel := context.WithDeadline(life, deadline)
	q.stop = cancel
	return ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.stop = nil
		cancel()
	}
}

// overdue reports whether a request has waited for too long.
func (q *queue) overdue() bool {
	actions, deadline := q.first() // which has waited longest
	return actions > 0 && !time.Now().Before(deadline)
}

// first returns how many actions wait, and when the first of them will have waited for too long.
func (q *queue) first() (actions int, deadline time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		deadline = q.waiting[0].deadline
	}
	return len(q.waiting), deadline
}
