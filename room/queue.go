package room

import (
	"context"
	"slices"
	"sync"
	"time"
)

// request is an action that waits for its room, or is being run.
type request struct {
	action   Action
	deadline time.Time    // when waiting for the lock becomes ErrBusy
	done     chan outcome // takes one outcome, never blocks
	gone     bool         // guarded by queue.mu: the caller gave up
	taken    bool         // guarded by queue.mu: it is part of a hold
}

type outcome struct {
	result Result
	err    error
}

func newRequest() any { return &request{done: make(chan outcome, 1)} }

func (r *request) fail(err error) { r.done <- outcome{err: err} }

// queue is what waits for one room on this node, in order of arrival.
type queue struct {
	id string

	mu      sync.Mutex
	waiting []*request         // guarded by mu
	stop    context.CancelFunc // guarded by mu: ends the wait for the lock, nil if nobody waits for it
	users   map[string]bool    // guarded by mu: those of the batch that take looks at
}

// push puts a request at the end.
func (q *queue) push(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, r)
}

// abandon takes back a request whose caller gave up, and reports whether it was
// still waiting, so that it has no effect. When nobody waits any more, neither
// does the node.
func (q *queue) abandon(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.gone = true
	if r.taken {
		return false
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *request) bool { return w == r })
	if len(q.waiting) == 0 && q.stop != nil {
		q.stop()
	}
	return true
}

// patience returns a context for waiting for the lock on behalf of all that wait:
// it ends when the first of them has waited for too long, or when all gave up.
func (q *queue) patience(life context.Context) (context.Context, context.CancelFunc) {
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

// overdue reports whether somebody has waited for too long. Those who wait longest
// stand first.
func (q *queue) overdue() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0 && !time.Now().Before(q.waiting[0].deadline)
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0
}

// take removes the next batch from the queue: the first actions, at most max,
// and at most one of each user, so that every answer can show the room after the
// whole batch and still contain what the action did. more says that others wait
// behind it.
func (q *queue) take(max int) (batch []*request, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	if max > 1 && len(q.waiting) > 1 {
		if q.users == nil {
			q.users = make(map[string]bool)
		}
		clear(q.users)
		for n < len(q.waiting) && n < max && !q.users[q.waiting[n].action.user] {
			q.users[q.waiting[n].action.user] = true
			n++
		}
	} else {
		n = min(1, len(q.waiting))
	}
	for _, r := range q.waiting[:n] {
		r.taken = true
	}
	if n == len(q.waiting) {
		batch, q.waiting = q.waiting, nil
		return batch, false
	}
	batch = slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch, true
}

// putBack lets a batch wait again, ahead of all others, without those whose
// callers gave up.
func (q *queue) putBack(batch []*request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch = slices.DeleteFunc(batch, func(r *request) bool { return r.gone })
	for _, r := range batch {
		r.taken = false
	}
	q.waiting = append(batch, q.waiting...)
}

// fail ends all that wait with err, or only those whose deadline has passed.
func (q *queue) fail(err error, onlyLate bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.waiting = slices.DeleteFunc(q.waiting, func(r *request) bool {
		if onlyLate && now.Before(r.deadline) {
			return false
		}
		r.taken = true
		r.fail(err)
		return true
	})
}
