package coordinator

import (
	"context"
	"time"

	"roomd/room"
)

// failLate fails those who have waited for the lock for longer than Options.LockWait: the
// room is busy. When the coordinator is closed it fails all.
func (w *worker) failLate() {
	if w.lifetime.life.Err() != nil {
		w.queue.fail(room.ErrClosed)
		return
	}
	w.queue.failOverdue(room.Refuse(room.ErrBusy, "room %s is busy: its lock could not be had within %v", w.id, w.opts.LockWait))
}

// context returns a context for waiting for the lock on behalf of all who wait: it ends
// with life, when the first of them is overdue, or when all gave up.
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

// overdue reports whether somebody has waited for too long. Those who wait longest are
// first.
func (q *queue) overdue() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0 && !time.Now().Before(q.waiting[0].deadline)
}

// failOverdue ends the wait of those whose deadline has passed with err.
func (q *queue) failOverdue(err error) {
	now := time.Now()
	q.failIf(err, func(r *request) bool { return !now.Before(r.deadline) })
}
