package transport

import (
	"context"
	"errors"
	"slices"

	"roomd/room"
	"roomd/transport/protocol"
)

// rejoin is a join that the server runs for a member who has lost the place
// without having asked for it.
type rejoin struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// event takes what happened in a room that the connection has to do with. It is
// called by the room's feed and does not block.
func (c *conn) event(p *presence, e *room.Event) {
	if slices.Contains(e.Replaced, room.Replaced{User: c.user, Session: c.session}) {
		c.mu.Lock()
		if !p.asking && !p.knows(e) {
			p.left()
		}
		if p.rejoin != nil {
			p.rejoin.cancel() // the newer session keeps the seat
		}
		c.mu.Unlock()
		c.end(protocol.CloseReplaced, "replaced by a newer session")
		return
	}
	if !c.out.event(e) {
		c.end(protocol.CloseTooSlow, "events were not read fast enough")
	}
	if !e.Rejoin && !withoutUser(e, c.user) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.knows(e) && (p.member || p.asking) {
		p.lost = e
		c.healLocked(p)
	}
}

// withoutUser reports whether the user is out of the room after e by what it tells.
func withoutUser(e *room.Event, user string) bool {
	if e.Snapshot != nil {
		return !sharedBy(e).seats(user)
	}
	for _, change := range slices.Backward(e.Changes) {
		if change.User == user {
			return change.Type == room.KindLeave
		}
	}
	return false
}

// healLocked has a member who is not in the room join it again, unless that runs
// already, or a request of the client does, which may make it needless.
func (c *conn) healLocked(p *presence) {
	if p.lost == nil || !p.member || p.asking || p.rejoin != nil || c.quits {
		return
	}
	ctx, cancel := context.WithCancel(c.server.life)
	r := &rejoin{cancel, make(chan struct{})}
	p.rejoin = r
	c.rejoins.Go(func() {
		defer close(r.done)
		defer cancel()
		c.heal(ctx, p)
	})
}

// heal joins again, on the old seat if it is free. The client hears of it by the
// room's events, as everybody does: there was no request to reply to.
func (c *conn) heal(ctx context.Context, p *presence) {
	var pause backoff
	anySeat := false
	for {
		c.mu.Lock()
		because := p.lost
		action := room.Join(c.user, c.session).Again()
		if !anySeat {
			action = action.At(p.seat)
		}
		c.mu.Unlock()
		result, err := c.server.rooms.Do(ctx, p.id, action)
		switch {
		case err == nil:
			if c.back(p, result, because) {
				return
			}
			anySeat = false
		case ctx.Err() != nil:
			c.mu.Lock()
			p.rejoin = nil
			c.mu.Unlock()
			return
		case errors.Is(err, room.ErrSeatTaken):
			anySeat = true
		case passing(err):
			pause.wait(ctx)
		default:
			c.lose(p, err)
			return
		}
	}
}

// back takes that a rejoin has succeeded, and reports whether that is all: no
// event since has said that the place is lost again.
func (c *conn) back(p *presence, result room.Result, because *room.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.lost == because {
		p.lost = nil
	}
	p.joined(result)
	if p.lost != nil {
		return false
	}
	p.rejoin = nil
	return true
}

// lose takes that the place is gone for good: the room is full now, or another
// session of the user has it.
func (c *conn) lose(p *presence, why error) {
	c.server.troubles.seats.Happened(why, "room", p.id, "user", c.user)
	c.mu.Lock()
	p.left()
	c.mu.Unlock()
	c.silence(p, true)
	c.mu.Lock()
	defer c.mu.Unlock()
	p.rejoin = nil
	// A request that waits for this goroutine finds out that there is nothing.
	if p.over() {
		delete(c.rooms, p.id)
	}
}
