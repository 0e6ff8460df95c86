package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// resend repeats a request of unknown outcome, which failed with why, until Redis decides it or ctx ends. If decided,
// err is the outcome; otherwise it is the error of the last sending that the end of ctx did not interrupt.
func (p *Pool) resend(ctx context.Context, id string, why error, send func(context.Context) error) (decided bool,
	err error) {
	p.logs.replies.Happened(why, "room", id)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if errors.Is(why, store.ErrUnacked) { // the commit is written; Close does not wait for replicas
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

// abandon releases the lock that the batch's commit may have, so that copies of the commit under way have no effect.
func (b *batch) abandon(slot *lockmgr.Slot) {
	if b.hold.Token != "" {
		slot.Release(b.hold.Token)
	} else {
		slot.Abandon()
	}
}

// unavailable wraps an error of Redis or of the network as ErrUnavailable.
func unavailable(id string, err error) error {
	return fmt.Errorf("room %s: %w: %w", id, room.ErrUnavailable, err)
}

// late returns the error of an action or a move that did not get its locks within Options.LockWait: the rooms are
// busy, or the coordinator is closed.
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

// checkTTL logs a busy room's lock that has no TTL, and so never expires.
func (p *Pool) checkTTL(id string) {
	key := p.locks.Key(id)
	if ttl, err := p.store.Client.PTTL(p.prompt.Context(), key).Result(); err == nil && ttl == -1 {
		p.logs.endless.Happened(nil, "key", key)
	}
}
