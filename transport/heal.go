package transport

import (
	"context"
	"errors"

	"roomd/room"
	"roomd/transport/protocol"
)

// heal is what the server does of its own accord for a session that has lost its place,
// or may have.
type heal struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// event takes what happened in a room that the connection has to do with. It is
// called by the room's feed and does not block.
func (c *conn) event(p *presence, e *room.Event) {
	switch {
	case !c.concern(p, e): // what comes after the session was replaced is for the newer one
	case e.Rejoin:
	case !c.out.event(e):
		c.end(protocol.CloseTooSlow, "events were not read fast enough")
	}
}

// concern weighs an event, now or when the action that runs has ended. It reports
// whether the session still counts.
func (c *conn) concern(p *presence, e *room.Event) bool {
	if !e.Concerns(c.user) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.asking || p.trying {
		p.told = append(p.told, e) // only its result says which of the two is newer
		return true
	}
	goesOn := c.weighLocked(p, e)
	c.healLocked(p)
	return goesOn
}

func (c *conn) weighAllLocked(p *presence) {
	told := p.told
	p.told = nil
	for _, e := range told {
		if !c.weighLocked(p, e) {
			return
		}
	}
}

// weighLocked takes what an event says of the session's place. It reports whether the
// session still counts.
func (c *conn) weighLocked(p *presence, e *room.Event) bool {
	if !p.member && !p.unsure {
		return true
	}
	fate, at := p.at.After(e)
	switch {
	case p.need == withdraw && fate == room.Removed:
		c.replacedLocked(p)
		return false
	case p.need == withdraw:
	case fate == room.Replaced && p.member && p.at.Overtook(e):
		p.need = withdraw
	case fate == room.Replaced && p.unsure:
		p.need = confirm // what is not known may have come later
	case fate == room.Replaced:
		c.replacedLocked(p)
		return false
	case fate == room.Speaks:
		p.need = nothing
		if seat, seated := e.SeatOf(c.user); seated {
			p.seat = seat // an old copy of Redis' data may have another one
		}
	case fate == room.Removed && p.member:
		p.need = comeBack
	case (fate == room.Doubtful || e.Rejoin) && p.member:
		p.need = max(p.need, confirm)
	}
	p.at = at
	return true
}

// replacedLocked closes the connection because a newer session speaks for its user in
// one of its rooms. What happens there from then on is not for its client.
func (c *conn) replacedLocked(p *presence) {
	p.left()
	c.out.end(p.id)
	c.endLocked(protocol.CloseReplaced, "replaced by a newer session")
}

// healLocked sees to what a presence needs, unless that is done already, or a request of
// the client runs, which may make it needless.
func (c *conn) healLocked(p *presence) {
	if p.need == nothing || p.asking || p.heal != nil || c.quits {
		return
	}
	ctx, cancel := context.WithCancel(c.server.life)
	h := &heal{cancel, make(chan struct{})}
	p.heal = h
	c.heals.Go(func() {
		defer close(h.done)
		defer cancel()
		c.heal(ctx, p)
	})
}

// heal runs one action after the other until nothing is needed, or ctx ends. The client
// hears of it by the room's events, as everybody does: there was no request to reply to.
func (c *conn) heal(ctx context.Context, p *presence) {
	var pause backoff
	anySeat := false
	for {
		need, action := c.nextTry(ctx, p, anySeat)
		if need == nothing {
			return
		}
		result, err := c.server.rooms.Do(ctx, p.id, action)
		switch {
		case c.tried(ctx, p, need, result, err):
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

// nextTry returns what is to be done next for a presence, or ends the heal.
func (c *conn) nextTry(ctx context.Context, p *presence, anySeat bool) (need, room.Action) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.need == nothing || ctx.Err() != nil {
		p.heal = nil
		return nothing, room.Action{}
	}
	p.trying = true
	switch {
	case p.need == confirm:
		return p.need, room.Keep(c.user, c.session)
	case p.need == withdraw:
		return p.need, room.Leave(c.user, c.session)
	case anySeat:
		return p.need, room.Join(c.user, c.session).Again()
	}
	return p.need, room.Join(c.user, c.session).Again().At(p.seat)
}

// tried takes what an action for a need has come to, and then weighs what was told
// meanwhile. It reports whether that is all there is to say of it.
func (c *conn) tried(ctx context.Context, p *presence, need need, result room.Result, err error) (settled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.trying = false
	if err != nil && ctx.Err() != nil {
		return true // settle weighs what was told
	}
	absent := errors.Is(err, room.ErrNotMember)
	switch {
	case need == withdraw && (err == nil || absent):
		c.replacedLocked(p)
		return true
	case errors.Is(err, room.ErrDuplicate):
		c.replacedLocked(p)
		return true
	case err == nil:
		p.need, p.seat, p.at = nothing, result.Seat, p.at.Joined(result)
	case absent && !p.member:
		p.left()
	case absent:
		p.need = nothing // an event on its way, or a snapshot, says why
		if fate, at := p.at.Missing(result); fate == room.Removed {
			p.need, p.at = comeBack, at
		}
	}
	c.weighAllLocked(p)
	return err == nil || absent
}

// lose records that the place is gone for good, as the room is full now, and tells the
// client.
func (c *conn) lose(p *presence, why error) {
	if errors.Is(why, room.ErrClosed) {
		return // the node ends, and says so to its clients
	}
	c.server.troubles.seats.Happened(why, "room", p.id, "user", c.user)
	c.mu.Lock()
	p.left()
	c.mu.Unlock()
	c.out.lost(p.id, toProtocol(why).Code)
	c.silence(p, true)
	c.mu.Lock()
	defer c.mu.Unlock()
	p.heal = nil
	// A request that waits for this goroutine finds out that there is nothing.
	if p.over() {
		delete(c.rooms, p.id)
	}
}
