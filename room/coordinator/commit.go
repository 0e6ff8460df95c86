package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/room"
)

// How a commit can fail without having written anything, but for errUnacked. Any other
// error leaves the outcome open; sending the same commit again decides it.
var (
	errLost    = errors.New("the lock is not the writer's any more")
	errStale   = errors.New("the room is at another version")
	errRefused = errors.New("redis refused the write")
	errUnacked = errors.New("too few replicas have the write") // so far
)

// nextToken is where a commit has put the token of the worker's next hold.
type nextToken int

const (
	nextWaits   nextToken = iota // in the line, or so it may be
	nextNowhere                  // nowhere: the lock is free
	nextHolds                    // it has the lock
)

// nextTokens are what the commit's script calls them. It says nothing (a false, which is
// nil here) of a token that waits.
var nextTokens = map[any]nextToken{int64(0): nextNowhere, int64(1): nextHolds}

// commit writes what was done to the room, and gives the lock back with it. When
// the reply is lost it sends the same commit again, which tells whether it
// was written, until a TTL has passed: by then no copy of it can be carried out
// any more. It fails with errLost, errStale, ErrUnavailable or ErrUnknown.
func (w *worker) commit(c *commit) (at nextToken, now *room.Room, err error) {
	end := time.Now().Add(w.opts.LockTTL)
	at, now, err = w.store.send(w.timeout.Context(), w.slot, c)
	if !decided(err) {
		w.episodes.replies.Happened(err, "room", w.id)
		at, now, err = w.resend(c, end, err)
	}
	if errors.Is(err, errRefused) {
		w.slot.Return(c.token())
		err = w.unavailable(err)
	}
	return at, now, err
}

// resend sends a commit again until its outcome is known, or end.
func (w *worker) resend(c *commit, end time.Time, why error) (at nextToken, now *room.Room, err error) {
	ctx, cancel := context.WithDeadline(w.lifetime.life, end)
	defer cancel()
	pause := time.NewTicker(max(w.opts.LockPoll, 10*time.Millisecond))
	defer pause.Stop()
	var shut <-chan struct{}
	if errors.Is(why, errUnacked) { // it is written; Close does not wait for replicas
		shut = w.lifetime.open.Done()
	}
	for {
		select {
		case <-shut:
			cancel()
		case <-ctx.Done():
		case <-pause.C:
		}
		if ctx.Err() != nil {
			w.slot.Return(c.token())
			return at, nil, fmt.Errorf("room %s: %w: %w", w.id, room.ErrUnknown, why)
		}
		at, now, err = w.store.send(ctx, w.slot, c)
		switch {
		case errors.Is(err, errStale):
			// A token that may be on its way twice is not used for anything else.
			w.slot.Return(c.token())
			return at, nil, errLost
		case decided(err):
			return at, now, err
		}
		if ctx.Err() == nil {
			why = err
		}
	}
}

// decided reports whether an answer of store.send says what became of the commit.
func decided(err error) bool {
	return err == nil || errors.Is(err, errLost) || errors.Is(err, errStale) || errors.Is(err, errRefused)
}

// send sends a commit. Without an error it is written, now or by an earlier
// sending. at says where the next token is, and now is what the room is when the
// error is errStale.
func (s *store) send(ctx context.Context, slot *lockmgr.Slot, c *commit) (at nextToken, now *room.Room, err error) {
	var cmd *redis.Cmd
	if s.acks == 0 || c.event == nil { // what is not written need not be acknowledged
		cmd = slot.Run(ctx, commitScript, c.args...)
	} else if cmd, err = s.sendAcked(ctx, slot, c); err != nil {
		return at, nil, err
	}
	reply, err := cmd.Slice()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"): // found before anything was written
		return at, nil, fmt.Errorf("%w: %w", errRefused, s.explain(ctx, c.id, err))
	case err != nil:
		return at, nil, err
	}
	switch {
	case reply[0] == "done":
		if len(reply) > 1 {
			at = nextTokens[reply[1]]
		}
		if len(reply) > 2 {
			c.unheard, _ = reply[2].(string)
		}
		if len(reply) > 3 {
			c.unlogged, _ = reply[3].(string)
		}
		return at, nil, nil
	case reply[0] == "lost":
		return at, nil, errLost
	case reply[0] == "stale":
		if now, err = s.parseRoom(c.id, reply[1:]); err != nil {
			return at, nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		return at, now, errStale
	case reply[0] == "refused" && len(reply) == 2:
		return at, nil, fmt.Errorf("%w: %s", errRefused, reply[1])
	}
	return at, nil, fmt.Errorf("commit answered %q", reply[0])
}
