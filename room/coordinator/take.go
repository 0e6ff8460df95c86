package coordinator

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/room"
)

// take waits for the room's lock on behalf of all actions in the queue, until the lock is
// ours or the first of them has waited for too long.
func (w *worker) take() {
	w.copy.catchUp()
	if !w.inLine && !w.quiet {
		w.place.missing()
	}
	w.inLine = true
	// Where nobody else was met of late, a plain SET costs Redis a fraction of the script. It
	// may take half a TTL, so it is not for those who have less time.
	if w.quiet && w.copy.room != nil && w.opts.LockWait >= w.opts.LockTTL && w.takePlainly() {
		return
	}
	ctx, end := w.queue.context(w.lifetime.life)
	defer end()
	err := w.slot.Acquire(ctx, w.ask)
	switch {
	case err == nil:
		if !w.held { // a wake-up said so
			w.held = true
			w.place.reached()
		}
	case ctx.Err() != nil:
		w.failLate()
		if w.inDoubt { // the request may have been carried out
			w.giveUp()
		}
	default:
		w.giveUp()
		w.queue.fail(w.unavailable(err))
	}
}

// takePlainly asks for the lock with one plain command. False leaves it to the script.
func (w *worker) takePlainly() (done bool) {
	held, err := w.slot.AskPlainly(w.timeout.Context())
	switch {
	case err == nil:
		w.held, w.quiet = held, held
		return held
	case redis.HasErrorPrefix(err, "OOM"):
		return false
	case w.lifetime.life.Err() != nil:
		w.failLate()
	}
	w.giveUp() // the request may have been carried out
	w.queue.fail(w.unavailable(err))
	return true
}

// askForLock asks once for the lock, and gets the room with it if there is no copy.
func (w *worker) askForLock(ctx context.Context) (held bool, err error) {
	w.copy.catchUp()
	defer func() { w.held, w.inDoubt = held, err != nil }()
	held, read, err := w.store.take(ctx, w.slot, w.id, w.copy.room != nil)
	if err != nil {
		return false, err
	}
	w.quiet = held
	if read != nil {
		w.copy.room = read
	}
	if !held {
		w.copy.follow(w.feeds, w.id)
	}
	return held, nil
}

// wait waits in the line until the lock is handed to us, or it is time to ask again.
func (w *worker) wait(ctx context.Context) {
	w.copy.follow(w.feeds, w.id)
	held, err := w.slot.Wait(ctx)
	switch {
	case held:
		w.held = true
		w.place.reached()
	case err != nil:
		w.failLate()
	}
}

// take asks for a room's lock. If it is ours now, read is the room, or nil if the
// caller has a copy already.
func (s *store) take(ctx context.Context, slot *lockmgr.Slot, id string, copied bool) (ours bool, read *room.Room, err error) {
	have := 0
	if copied {
		have = 1
	}
	args := []any{slot.Token(), s.ttlMS, have}
	cmd, err := slot.Ask(ctx, takeScript, args...)
	if redis.HasErrorPrefix(err, "OOM") {
		cmd, err = slot.Ask(ctx, takeScript, append(args, "full")...)
	}
	if err != nil {
		return false, nil, s.explain(ctx, id, err)
	}
	reply, err := cmd.Slice()
	if err != nil {
		return false, nil, s.explain(ctx, id, err)
	}
	switch {
	case reply[0] == "queued":
		return false, nil, nil
	case reply[0] == "yours" && len(reply) == 1:
		return true, nil, nil
	case reply[0] == "yours":
		read, err = s.parseRoom(id, reply[1:])
		return true, read, err
	}
	return false, nil, fmt.Errorf("take answered %q", reply[0])
}
