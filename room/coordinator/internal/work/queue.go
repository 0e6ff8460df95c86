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
	deadline time.Time    // when the action fails with ErrBusy if it still waits
	done     chan outcome // buffered: receives one outcome without blocking
	accepted bool         // part of an operation accepted before Close
	unshared bool         // guarded by queue.mu: it gets a commit of its own
	gone     bool         // guarded by queue.mu: the caller gave up
	inBatch  bool         // guarded by queue.mu: it is part of a hold
}

type outcome struct {
	result room.Result
	err    error
}

func newRequest() any { return &request{done: make(chan outcome, 1)} }

// set makes r a new request. Its deadline is now plus wait. at is the time by the clock that all nodes share, since a
// node's own may be wrong.
func (r *request) set(a room.Action, at int64, now time.Time, wait time.Duration) {
	*r = request{action: a, at: at, deadline: now.Add(wait), done: r.done}
}

func (r *request) fail(err error) { r.done <- outcome{err: err} }

// queue holds the requests that wait for one room on this node, in order of arrival. The zero value is empty.
type queue struct {
	mu      sync.Mutex
	waiting []*request         // guarded by mu
	stop    context.CancelFunc // guarded by mu: ends the wait for the lock; nil if nobody waits for it
	users   map[string]bool    // guarded by mu: scratch space of differingLocked
}

func (q *queue) push(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, r)
}

func (q *queue) empty() bool {
	actions, _ := q.first()
	return actions == 0
}

// abandon removes a request whose caller gave up. It reports whether the request was still waiting: then it never takes
// effect. Once no request waits, the wait for the lock ends.
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

// dequeue appends the next batch to into: the first actions, at most max, and at most one per user, so that every
// answer can show the room after the whole batch and still contain its own action's effect. For the same reason an
// action that is alone (see room.Subject) is a batch of its own. more reports whether others wait behind the batch.
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

// differingLocked returns how many of the first requests, at most max, may share a batch.
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

// requeue puts a batch back in front, without requests whose callers gave up. If unshared, each gets its own commit.
func (q *queue) requeue(batch []*request, unshared bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch = slices.DeleteFunc(batch, func(r *request) bool { return r.gone })
	for _, r := range batch {
		r.inBatch, r.unshared = false, r.unshared || unshared
	}
	q.waiting = slices.Insert(q.waiting, 0, batch...)
}

func (q *queue) fail(err error) { q.failIf(err, func(*request) bool { return true }) }

// failOverdue fails the requests whose deadline has passed.
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

// context returns a context that ends with life, at the first request's deadline, or when all callers gave up.
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

func (q *queue) overdue() bool {
	actions, deadline := q.first() // the oldest
	return actions > 0 && !time.Now().Before(deadline)
}

// first returns the number of waiting actions, and the deadline of the first.
func (q *queue) first() (actions int, deadline time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		deadline = q.waiting[0].deadline
	}
	return len(q.waiting), deadline
}
