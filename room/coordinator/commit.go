package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// commit writes what was done to the room, under the lock, and gives that back with it. When
// the reply is lost it sends the same commit again, which tells whether it
// was written, until a TTL has passed: then no copy of it can be carried out
// any more. It fails with store.ErrLost, store.ErrQueued, store.ErrStale, store.ErrBehind, ErrUnavailable or ErrUnknown.
func (w *worker) commit(b *batch) (at store.NextToken, now *room.Room, err error) {
	b.sent = time.Now()
	at, now, err = w.ws.store.Send(w.ws.timeout.Context(), w.slot, b.commit)
	return w.decide(b, at, now, err)
}

// decide sends the commit of a batch again if its first sending, which was answered so or failed, leaves the
// outcome open.
func (w *worker) decide(b *batch, at store.NextToken, now *room.Room, err error) (store.NextToken, *room.Room, error) {
	if !store.IsDecided(err) {
		w.ws.logs.replies.Happened(err, "room", w.id)
		at, now, err = w.resend(b.commit, b.sent.Add(w.ws.opts.LockTTL), err)
	}
	if errors.Is(err, store.ErrRefused) {
		w.abandonCommit(b.commit)
		err = w.unavailable(err)
	}
	return at, now, err
}

// resend sends a commit again until its outcome is known, or end.
func (w *worker) resend(c *store.Commit, end time.Time, why error) (at store.NextToken, now *room.Room, err error) {
	ctx, cancel := context.WithDeadline(w.ws.life.life, end)
	defer cancel()
	pause := time.NewTicker(max(w.ws.opts.LockPoll, 10*time.Millisecond))
	defer pause.Stop()
	var shut <-chan struct{}
	if errors.Is(why, store.ErrUnacked) { // it is written; Close does not wait for replicas
		shut = w.ws.life.open.Done()
	}
	for {
		select {
		case <-shut:
			cancel()
		case <-ctx.Done():
		case <-pause.C:
		}
		if ctx.Err() != nil {
			w.abandonCommit(c)
			return at, nil, fmt.Errorf("room %s: %w: %w", w.id, room.ErrUnknown, why)
		}
		at, now, err = w.ws.store.Send(ctx, w.slot, c)
		switch {
		case errors.Is(err, store.ErrStale) && c.Token() != "":
			// A token that may be on its way twice is not used for anything else.
			w.abandonCommit(c)
			return at, nil, store.ErrLost
		case store.IsDecided(err):
			return at, now, err
		}
		if ctx.Err() == nil {
			why = err
		}
	}
}

// abandonCommit releases the lock that a commit may have, and has what was not answered of it do nothing any more.
func (w *worker) abandonCommit(c *store.Commit) {
	if c.Token() != "" {
		w.slot.Release(c.Token())
	} else {
		w.slot.Abandon()
	}
}

// incomplete records what Redis has not taken of a commit that is done all the same.
func (ws *workers) incomplete(c *store.Commit) {
	if c.Unheard != "" {
		ws.logs.unheard.Happened(errors.New(c.Unheard), "room", c.ID)
	}
	if c.Unlogged != "" {
		ws.logs.unlogged.Happened(errors.New(c.Unlogged), "room", c.ID)
	}
}
