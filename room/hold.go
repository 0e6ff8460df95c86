package room

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/lockmgr"
)

// serve runs what waits for a room, hold after hold, until nothing does.
func (c *Coordinator) serve(q *queue) {
	for {
		ctx, ok := c.wait(q)
		if !ok {
			return
		}
		lock, err := c.locks.Acquire(ctx, q.id)
		switch {
		case err == nil:
			c.hold(q, lock)
		case c.life.Err() != nil:
			q.fail(ErrClosed, false)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
			q.fail(&refusal{ErrBusy, fmt.Sprintf("room %s is busy: its lock could not be had within %v", q.id, c.opts.LockWait)}, true)
		case ctx.Err() != nil:
			// All who waited had given up; somebody may have come since.
		default:
			q.fail(c.unavailable(q.id, err), false)
		}
	}
}

// hold runs one batch under the lock: read, apply, commit. Every request and
// every reply fits into the hold, because their context ends with it.
func (c *Coordinator) hold(q *queue, lock *lockmgr.Lock) {
	batch := q.take(c.opts.MaxBatch)
	if len(batch) == 0 { // all who waited gave up just now
		c.release(lock)
		return
	}
	ctx, cancel := context.WithDeadline(c.life, lock.Deadline())
	defer cancel()

	room, err := c.store.load(ctx, q.id)
	if err != nil {
		c.release(lock)
		failAll(batch, c.unavailable(q.id, err))
		return
	}
	if room.Epoch == "" {
		room.Epoch = newEpoch()
	}
	outcomes := make([]outcome, len(batch))
	for i, r := range batch {
		outcomes[i].result.Seat, outcomes[i].err = room.Apply(r.action, c.opts.Rules)
	}
	if len(room.Delta().Touched) > 0 {
		err = c.commit(ctx, room, lock)
	} else {
		c.release(lock)
	}
	switch {
	case errors.Is(err, errLost), errors.Is(err, errStale):
		c.opts.Log.Warn().Str("room", q.id).Err(err).Msg("a stale commit was refused; its actions run again under a new hold")
		lock.WriteRefused()
		c.release(lock)
		q.putBack(batch)
		return
	case err != nil:
		failAll(batch, err)
		return
	}
	snapshot := room.Snapshot()
	for i, r := range batch {
		if outcomes[i].err == nil {
			outcomes[i].result.Snapshot = snapshot
		}
		r.done <- outcomes[i]
	}
}

// commit writes what was done to the room, and gives the lock back with it. When
// the reply stays away it sends the same commit again, which settles whether it
// was written, until a TTL has passed: by then no copy of it can be carried out
// any more. It fails with errLost, errStale, ErrUnavailable or ErrUnknown.
func (c *Coordinator) commit(ctx context.Context, room *Room, lock *lockmgr.Lock) error {
	commit, err := c.store.prepare(room, lock)
	if err != nil {
		c.release(lock)
		return c.unavailable(room.ID, err)
	}
	err = c.store.send(ctx, commit)
	if settled(err) {
		return c.outcome(room.ID, lock, err)
	}
	c.opts.Log.Warn().Str("room", room.ID).Err(err).Msg("no reply to a commit; sending it again to learn its outcome")
	ctx, cancel := context.WithTimeout(c.life, c.opts.LockTTL)
	defer cancel()
	pause := time.NewTicker(max(c.opts.LockPoll, 10*time.Millisecond))
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("room %s: %w: %w", room.ID, ErrUnknown, err)
		case <-pause.C:
		}
		if err = c.store.send(ctx, commit); settled(err) {
			return c.outcome(room.ID, lock, err)
		}
	}
}

// settled reports whether an answer of store.send says what became of the commit.
func settled(err error) bool {
	return err == nil || errors.Is(err, errLost) || errors.Is(err, errStale) || errors.Is(err, errRefused)
}

func (c *Coordinator) outcome(id string, lock *lockmgr.Lock, err error) error {
	switch {
	case err == nil:
		lock.Given()
	case errors.Is(err, errRefused):
		c.release(lock)
		return c.unavailable(id, err)
	}
	return err
}

// release gives a lock back that no commit gives back. If that fails, the TTL
// does it.
func (c *Coordinator) release(lock *lockmgr.Lock) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(c.life), lock.Deadline())
	defer cancel()
	if err := lock.Release(ctx); err != nil {
		c.opts.Log.Debug().Str("room", lock.Name()).Err(err).Msg("lock not released")
	}
}

// unavailable wraps what Redis, or the way there, failed with.
func (c *Coordinator) unavailable(id string, err error) error {
	return fmt.Errorf("room %s: %w: %w", id, ErrUnavailable, err)
}

func failAll(batch []*request, err error) {
	for _, r := range batch {
		r.fail(err)
	}
}
