package transport

import (
	"context"
	"errors"
	"fmt"

	"roomd/room"
)

// presence is what a connection has to do with one room: as a member, as one who
// watches, or both. Apart from id its fields are guarded by the connection's mu.
type presence struct {
	id   string
	stop func() // ends the room's events; nil without them

	member   bool // the client was told that it is in, and has not left: it has to be in
	unsure   bool // a join or a leave may or may not have been written
	watching bool // the client asked for the room's events

	seat int           // of the last join
	at   room.Standing // what is known of the session's place

	asking bool          // a request of the client runs that may change all this
	trying bool          // an action of the server's own does
	told   []*room.Event // what came meanwhile, to be weighed when it has ended

	need need
	heal *heal // nil if none runs
}

// need is what a presence wants of the room, without having been asked for it.
type need int

const (
	nothing  need = iota
	confirm       // to know whether the session still speaks for its user
	comeBack      // the place again, which was lost to none of the user's sessions
	withdraw      // to leave again: it was brought back after a newer session had come and left
)

// over reports whether the connection has nothing to do with the room.
func (p *presence) over() bool { return !p.member && !p.unsure && !p.watching }

// claims reports whether the connection is in a room, or may be soon, or has ended.
func (c *conn) claims(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.rooms[id]
	return c.quits || p != nil && (p.member || p.unsure || p.asking || p.heal != nil)
}

// joined records that the session is in the room, as the client asked, and what the
// join has come to.
func (p *presence) joined(r room.Result) {
	p.member, p.unsure, p.need = true, false, nothing
	p.at.Out = false
	p.seat, p.at = r.Seat, p.at.Joined(r)
}

// left records that the session is not in the room.
func (p *presence) left() { p.member, p.unsure, p.need = false, false, nothing }

// begin gives a request of the client exclusive control of the presence: an action of
// the server's own that runs for it ends, and no other begins before settle. It returns
// nil if the connection has nothing to do with the room.
func (c *conn) begin(id string) *presence {
	c.mu.Lock()
	p := c.rooms[id]
	if p == nil {
		c.mu.Unlock()
		return nil
	}
	p.asking = true
	running := p.heal
	c.mu.Unlock()
	if running == nil {
		return p
	}
	running.cancel()
	<-running.done
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rooms[id] // heal may have ended it
}

// enter is begin for a request that needs the room's events, from before it is
// run, so that none is missing behind its reply.
func (c *conn) enter(id string) (*presence, error) {
	p := c.begin(id)
	if p == nil {
		c.mu.Lock()
		if limit := c.server.opts.MaxRooms; len(c.rooms) >= limit {
			c.mu.Unlock()
			return nil, &room.InvalidError{Field: "room", Problem: fmt.Sprintf("is one too many: a connection can be in, or watch, %d rooms", limit)}
		}
		p = &presence{id: id, asking: true, at: room.Standing{User: c.user, Session: c.session}}
		c.rooms[id] = p
		c.mu.Unlock()
	}
	if p.stop == nil { // only heal and this goroutine write it
		if err := c.listen(p); err != nil {
			c.settle(p)
			return nil, err
		}
	}
	return p, nil
}

// listen has the room's events held for the client.
func (c *conn) listen(p *presence) error {
	c.out.open(p.id)
	stop, err := c.server.rooms.Watch(c.server.watching.Context(), p.id, func(e *room.Event) { c.event(p, e) })
	if err != nil {
		c.out.close(p.id)
		if errors.Is(err, context.DeadlineExceeded) {
			return errors.Join(room.ErrUnavailable, err)
		}
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.stop = stop
	return nil
}

// settle ends what begin or enter began, and weighs what was told meanwhile.
func (c *conn) settle(p *presence) {
	if p == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.asking = false
	c.weighAllLocked(p)
	if p.over() && p.stop == nil {
		delete(c.rooms, p.id)
		return
	}
	c.healLocked(p)
}

// silence ends the events of a room, unless the client has to get them. Those
// that wait to be told are dropped, or with last still told.
func (c *conn) silence(p *presence, last bool) {
	c.mu.Lock()
	stop := p.stop
	if stop == nil || p.member || p.watching {
		c.mu.Unlock()
		return
	}
	p.stop = nil
	c.mu.Unlock()
	stop()
	if last {
		c.out.end(p.id)
	} else {
		c.out.close(p.id)
	}
}
