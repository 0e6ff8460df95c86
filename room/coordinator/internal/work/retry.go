package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// resend calls send for a request whose outcome is open, since it failed with why, until Redis decides it or ctx
// ends. It returns the error of the last sending, or the last one that is not just the end of ctx.
func (p *Pool) resend(ctx context.Context, id string, why error, send func(context.Context) error) (decided bool,
	err error) {
	p.logs.replies.Happened(why, "room", id)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if errors.Is(why, store.ErrUnacked) { // it is written; Close does not wait for replicas
		defer context.AfterFunc(p.open, cancel)()
	}
	for pause.For(ctx, max(p.opts.LockPoll, 10*time.Millisecond)) == nil {
		if err = send(ctx); store.IsDecided(err) {
			return true, err
		} else if ctx.Err() == nil {
			why = err
		}
	}
	return false, why
}

// abandonCommit releases the lock that a commit may have, and keeps what was not answered of it from having an effect.
func (w *worker) abandonCommit(b *batch) {
	if b.hold.Token != "" {
		w.slot.Release(b.hold.Token)
	} else {
		w.slot.Abandon()
	}
}

// unavailable wraps an error of Redis, or of the way there.
func unavailable(id string, err error) error {
	return fmt.Errorf("room %s: %w: %w", id, room.ErrUnavailable, err)
}

// late returns the error of an action, or a move, that could not have the locks of its rooms within Options.LockWait:
// they are busy, or the coordinator is closed.
func (p *Pool) late(ids ...string) error {
	if p.life.Err() != nil {
		return room.ErrClosed
	}
	p.running.Go(func() {
		for _, id := range ids {
			p.checkTTL(id)
		}
	})
	its := "its lock"
	if len(ids) > 1 {
		its = "their locks"
	}
	return room.Refuse(room.ErrBusy, "room %s is busy: %s could not be had within %v", strings.Join(ids, " or "), its,
		p.opts.LockWait)
}

// checkTTL logs it if the lock of a room that is busy has no TTL: then the room stays so.
func (p *Pool) checkTTL(id string) {
	key := p.locks.Key(id)
	if ttl, err := p.store.Client.PTTL(p.prompt.Context(), key).Result(); err == nil && ttl == -1 {
		p.logs.endless.Happened(nil, "key", key)
	}
}
