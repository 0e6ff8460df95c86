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

func (r *request) fail(err error) { r.done <- outcome{err: err} }

// queue is what waits for one room on this node, in order of arrival. A
// goroutine serves it as long as there is something, and takes it away then.
type queue struct {
	id string

	mu      sync.Mutex
	waiting []*request         // guarded by mu
	stop    context.CancelFunc // guarded by mu: ends the wait for the lock
}

// enqueue puts a request at the end of its room's queue.
func (c *Coordinator) enqueue(id string, r *request) (*queue, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	q := c.queues[id]
	if q == nil {
		q = &queue{id: id}
		c.queues[id] = q
		c.busy.Go(func() { c.serve(q) })
	}
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	q.mu.Unlock()
	return q, nil
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

// wait returns a context for waiting for the lock on behalf of all that wait, or
// false when nobody does; the queue is then gone.
func (c *Coordinator) wait(q *queue) (context.Context, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stop != nil {
		q.stop()
	}
	if len(q.waiting) == 0 {
		delete(c.queues, q.id)
		return nil, false
	}
	ctx, cancel := context.WithDeadline(c.life, q.waiting[0].deadline)
	q.stop = cancel
	return ctx, true
}

// take removes the next batch from the queue: the first actions, at most max,
// and at most one of each user, so that every answer can show the room after the
// whole batch and still contain what the action did.
func (q *queue) take(max int) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	users := make(map[string]struct{}, min(max, len(q.waiting)))
	n := 0
	for ; n < len(q.waiting) && n < max; n++ {
		user := q.waiting[n].action.user
		if _, again := users[user]; again {
			break
		}
		users[user] = struct{}{}
		q.waiting[n].taken = true
	}
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
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
