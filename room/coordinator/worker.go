package coordinator

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/lockmgr"
	"roomd/room"
)

// worker serves one room on this node, hold after hold. Its goroutine runs as long as
// something waits in the queue: it takes the lock (take.go), applies what waits to the
// copy of the room (apply.go) and commits it (commit.go). Then the worker is idle and
// keeps the copy for a while, so that the next action need not read the room.
type worker struct {
	*workers
	id    string
	queue queue
	keys  keys
	slot  *lockmgr.Slot

	// Used only by the worker's goroutine.
	copy       localCopy
	acked      string                                           // the mark of the last commit that enough replicas are known to have
	ask        func(ctx context.Context) (held bool, err error) // askForLock
	held       bool                                             // the lock holds the slot's token, as far as we know
	inDoubt    bool                                             // the last request for the lock may have been carried out or not
	inLine     bool                                             // the token waits in Redis, or holds the lock: it has to be given up
	place      keptPlace                                        // in the line, between two holds
	quiet      bool                                             // nobody else was met at the last hold
	registered *identity                                        // the name under which Redis knows that we may have members here; nil: none
	retired    bool                                             // nothing is left to do here, unless something comes
	freed      time.Time                                        // when the last hold ended, if there is a Trace of that

	idleAt *list.Element // guarded by workers.mu: its place in workers.idle; nil while it is busy
	size   int           // guarded by workers.mu: what it counts for while it is idle
	since  time.Time     // guarded by workers.mu: when it became idle
}

// serve runs holds until nothing waits.
func (w *worker) serve() {
	for {
		switch {
		case w.finished():
			return
		case w.queue.overdue():
			w.failLate()
		case w.queue.empty(): // all who waited gave up
			w.giveUp()
		case !w.ready():
		case w.held:
			w.hold()
		default:
			w.take()
		}
	}
}

// finished makes the worker idle, if nothing waits and there is no lock to give back.
func (w *worker) finished() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inLine || !w.queue.empty() {
		return false
	}
	if w.retired {
		w.closeLocked(w)
	} else {
		w.sleepLocked(w)
	}
	return true
}

// ready makes sure that the node may write to the room under its name: its lease is
// valid, and Redis knows that it may have members there. Otherwise it fails those
// who wait.
func (w *worker) ready() bool {
	who, valid := w.membership.lease.holder()
	if valid && w.registered == who {
		return true
	}
	ctx, end := w.queue.context(w.lifetime.life)
	defer end()
	err := w.membership.start(ctx)
	if err == nil {
		w.registered, err = w.membership.register(ctx, w.id, w.registered)
	}
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil:
		w.failLate()
	case errors.Is(err, room.ErrClosed):
		w.queue.fail(room.ErrClosed)
	default:
		w.queue.fail(w.unavailable(err))
	}
	return false
}

// giveUp leaves the line for the lock, or gives it back unused.
func (w *worker) giveUp() {
	w.held, w.inLine = false, false
	w.slot.Leave()
}

// retire deletes the records of this node in the room, unless it still has members there.
// It is the last thing that a worker does when its room has been quiet for a while. If
// Redis has lost some of the room, retire puts that right.
func (w *worker) retire() error {
	w.retired = true
	who, _ := w.membership.lease.holder()
	if w.registered != who && !who.rooms.has(w.id) {
		return nil
	}
	end, free := w.membership.registration.records.delete(w.id)
	if !free { // a later round compares them
		return nil
	}
	defer end()
	known := w.feeds.at(w.id)
	seen, err := w.membership.registration.forget(w.lifetime.life, w.id, who)
	if err != nil {
		return err
	}
	if !seen.whole {
		r := newRequest().(*request)
		r.set(room.Renew(seen.at.Epoch), time.Now(), w.opts.LockWait)
		w.queue.push(r)
	}
	w.feeds.compare(w.id, known, seen.at)
	if seen.member {
		return w.membership.registration.note(w.lifetime.life, who, noteAdd, w.id)
	}
	w.registered = nil // also if this fails: the next action registers again
	who.rooms.remove(w.id)
	if err := w.membership.registration.note(w.lifetime.life, who, noteRemove, w.id); err != nil {
		who.rooms.add(w.id) // it may still be there
		return err
	}
	return nil
}

// unavailable wraps what Redis, or the way there, failed with.
func (w *worker) unavailable(err error) error {
	return fmt.Errorf("room %s: %w: %w", w.id, room.ErrUnavailable, err)
}
