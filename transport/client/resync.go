package client

import "roomd/transport/protocol"

// resync starts to ask for the list of a room that has missed an event, until there is one.
func (c *Client) resync(r *Room) {
	c.goroutines.Go(func() {
		pauses := c.cfg.backoff()
		for {
			if conn := c.status.now().conn; conn != nil {
				req := &protocol.Request{Action: protocol.ActionUsers, Room: r.id}
				// What comes of it, relisted has recorded.
				_, _, _ = conn.link.roundTrip(c.ctx, req, func(reply *protocol.Reply) { c.rooms.relisted(r, reply) })
			}
			if !c.rooms.behind(r) || !pauses.pause(c.ctx) {
				return
			}
		}
	})
}

// behind reports whether a room still needs a list. If not, the next gap needs another resync.
func (rs *rooms) behind(r *Room) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	// A room that is not restored gets a list by that.
	r.asking = r.err == nil && r.restored && !r.synced
	return r.asking
}

// relisted takes the reply to a users of resync over. It comes in the order of the room's events,
// so exactly those behind it follow.
func (rs *rooms) relisted(r *Room, reply *protocol.Reply) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	switch {
	case r.err != nil:
	case reply.Error == nil:
		r.listLocked(reply)
		r.seatLocked()
	case !later(reply.Error):
		r.replica.view.Watching = false
		r.refusedLocked(lostBy(r.id, reply))
	}
}
