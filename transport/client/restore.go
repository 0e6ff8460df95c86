package client

import (
	"errors"

	"roomd/transport/protocol"
)

// restore brings a room back on a new connection: the membership, and the watch. It tries again
// while the server cannot do it now.
func (s *session) restore(r *Room) {
	pauses := s.client.cfg.backoff()
	for {
		step := s.client.rooms.missing(r)
		if step == nil {
			s.client.status.notify() // requests may wait for the room
			return
		}
		if !s.take(step, &pauses) {
			return
		}
	}
}

// take sends the request of a step, and pauses if it has to be sent again. It returns false if the
// connection has ended.
func (s *session) take(step *step, pauses *backoff) bool {
	s.slots <- struct{}{}
	_, _, err := s.conn.link.roundTrip(s.ctx, step.req, step.apply)
	var refused *protocol.Error
	if err == nil || !errors.As(err, &refused) {
		<-s.slots
		return err == nil
	}
	if refused.Is(protocol.ErrRateLimited) {
		// The others wait, too: a server closes the connection of a client that goes on regardless.
		defer func() { <-s.slots }()
		return pauses.pause(s.ctx)
	}
	<-s.slots
	return !later(refused) || pauses.pause(s.ctx)
}

// later reports whether a refused request may be sent again soon. CodeUnknown is none of those that
// a server calls so, but who joins or watches again does no harm.
func later(err *protocol.Error) bool { return err.Retry || err.Code == protocol.CodeUnknown }

// step is one request of those that restore a room.
type step struct {
	req   *protocol.Request
	apply func(*protocol.Reply)
}

// missing returns what a room needs next to be what it was, or nil: then it is restored.
func (rs *rooms) missing(r *Room) *step {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	v := &r.replica.view
	switch {
	case r.err != nil:
		return nil
	case v.Member && !r.rejoined:
		req := &protocol.Request{Action: protocol.ActionJoin, Room: r.id}
		if v.Seat != noSeat {
			req.Seat, req.Expect, req.Epoch = new(v.Seat), new(v.Version), v.Epoch
		}
		return &step{req, func(reply *protocol.Reply) { rs.rejoined(r, reply) }}
	case v.Watching && !r.rewatched:
		req := &protocol.Request{Action: protocol.ActionWatch, Room: r.id}
		return &step{req, func(reply *protocol.Reply) { rs.rewatched(r, reply) }}
	}
	r.restored = true
	return nil
}

// rejoined takes the reply to a join of restore over.
func (rs *rooms) rejoined(r *Room, reply *protocol.Reply) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	switch {
	case r.err != nil:
	case reply.Error == nil:
		r.rejoined = true
		r.joinedLocked(reply)
	case !later(reply.Error):
		r.loseLocked(lostBy(r.id, reply))
	}
}

// rewatched takes the reply to a watch of restore over.
func (rs *rooms) rewatched(r *Room, reply *protocol.Reply) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	v := &r.replica.view
	switch {
	case r.err != nil:
	case reply.Error == nil:
		r.rewatched = true
		r.listLocked(reply)
	case !later(reply.Error):
		if v.Watching = false; !v.Member {
			r.endLocked(lostBy(r.id, reply))
		}
	}
}
