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

	// Of the last join: the seat, and the room after it.
	seat    int
	epoch   string
	version uint64

	asking bool        // a request of the client runs that may change all this
	lost   *room.Event // that says that the session is not in the room (any more); nil if none does
	rejoin *rejoin     // nil if none runs
}

// over reports whether the connection has nothing to do with the room.
func (p *presence) over() bool { return !p.member && !p.unsure && !p.watching }

// joined takes what a join has come to.
func (p *presence) joined(r room.Result) {
	p.member, p.unsure = true, false
	p.seat, p.epoch, p.version = r.Seat, r.Epoch, r.Version
	if p.lost != nil && p.knows(p.lost) {
		p.lost = nil
	}
}

// left takes that the session is not in the room.
func (p *presence) left() { p.member, p.unsure, p.lost = false, false, nil }

// knows reports whether what e tells was before the last join. A snapshot can be
// new and of an older version: a failover takes versions back.
func (p *presence) knows(e *room.Event) bool {
	return e.Snapshot == nil && e.Epoch == p.epoch && e.Version <= p.version
}

// begin gives a request of the client the only word about a room: a rejoin that
// runs ends, and no other begins before settle. It returns nil if the connection
// has nothing to do with the room.
func (c *conn) begin(id string) *presence {
	c.mu.Lock()
	p := c.rooms[id]
	if p == nil {
		c.mu.Unlock()
		return nil
	}
	p.asking = true
	running := p.rejoin
	c.mu.Unlock()
	if running == nil {
		return p
	}
	running.cancel()
	<-running.done
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rooms[id] // the rejoin may have ended it
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
		p = &presence{id: id, asking: true}
		c.rooms[id] = p
		c.mu.Unlock()
	}
	if p.stop == nil { // only a rejoin and this goroutine write it
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
	stop, err := c.server.rooms.Watch(c.server.watching.context(), p.id, func(e *room.Event) { c.event(p, e) })
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

// settle ends what begin or enter began. The room's events end if the client has
// no business with it any more.
func (c *conn) settle(p *presence) {
	if p == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.asking = false
	if p.over() {
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
