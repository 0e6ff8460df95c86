package transport

import (
	"errors"

	"roomd/room"
	"roomd/transport/protocol"
)

// handle runs one request and queues its reply.
func (c *conn) handle(frame []byte) {
	req, bad := protocol.DecodeRequest(frame)
	if bad != nil {
		c.out.reply(bad.Reply())
		return
	}
	c.out.hold(req.Room) // until its reply
	switch req.Action {
	case protocol.ActionJoin:
		c.join(req)
	case protocol.ActionLeave:
		c.leave(req)
	case protocol.ActionUsers:
		c.users(req)
	case protocol.ActionWatch:
		c.watch(req)
	case protocol.ActionUnwatch:
		c.unwatch(req)
	}
}

func (c *conn) join(req protocol.Request) {
	action := room.Join(c.user, c.session)
	if req.Seat != nil {
		action = action.At(*req.Seat)
	}
	p, err := c.enter(req.Room)
	if err != nil {
		c.refuse(req, err)
		return
	}
	defer c.settle(p)
	result, err := c.server.rooms.Do(c.server.life, req.Room, action)
	c.mu.Lock()
	before := p.member
	switch {
	case err == nil:
		p.joined(result)
	case errors.Is(err, room.ErrUnknown):
		p.unsure = true
	case errors.Is(err, room.ErrFull), errors.Is(err, room.ErrDuplicate):
		p.left() // if it was in, it has lost the seat
	}
	lost := before && !p.member
	c.mu.Unlock()
	if err != nil {
		if lost {
			c.out.lost(p.id, toProtocol(err).Code)
		}
		c.silence(p, before)
		c.refuse(req, err)
		if lost && errors.Is(err, room.ErrDuplicate) {
			c.end(protocol.CloseReplaced, "replaced by a newer session")
		}
		return
	}
	reply := listed(req, result.Snapshot)
	reply.Seat = &result.Seat
	c.out.replySnapshot(reply)
}

func (c *conn) leave(req protocol.Request) {
	p := c.begin(req.Room)
	defer c.settle(p)
	result, err := c.server.rooms.Do(c.server.life, req.Room, room.Leave(c.user, c.session))
	if p != nil {
		c.mu.Lock()
		switch {
		case err == nil, errors.Is(err, room.ErrNotMember):
			p.left()
		case errors.Is(err, room.ErrUnknown):
			// It asked to leave: it is not brought back if it did.
			p.member, p.unsure, p.need = false, true, nothing
		}
		over := p.over()
		c.mu.Unlock()
		if over {
			c.silence(p, err != nil)
		}
	}
	if err != nil {
		c.refuse(req, err)
		return
	}
	c.out.reply(brief(req, result.Snapshot))
	c.out.release(req.Room) // to one who watches
}

func (c *conn) users(req protocol.Request) {
	s, err := c.server.rooms.Read(c.server.life, req.Room)
	if err != nil {
		c.refuse(req, err)
		return
	}
	c.out.replySnapshot(listed(req, s))
}

func (c *conn) watch(req protocol.Request) {
	p, err := c.enter(req.Room)
	if err != nil {
		c.refuse(req, err)
		return
	}
	defer c.settle(p)
	s, err := c.server.rooms.Read(c.server.life, req.Room)
	if err != nil {
		c.silence(p, false)
		c.refuse(req, err)
		return
	}
	c.mu.Lock()
	p.watching = true
	c.mu.Unlock()
	c.out.replySnapshot(listed(req, s))
}

// unwatch is no error for one who does not watch. A member's events go on.
func (c *conn) unwatch(req protocol.Request) {
	p := c.begin(req.Room)
	defer c.settle(p)
	s, err := c.server.rooms.Read(c.server.life, req.Room)
	if err != nil {
		c.refuse(req, err)
		return
	}
	if p != nil {
		c.mu.Lock()
		p.watching = false
		c.mu.Unlock()
		c.silence(p, false)
	}
	c.out.reply(brief(req, s))
	c.out.release(req.Room)
}

func (c *conn) refuse(req protocol.Request, err error) {
	e := toProtocol(err)
	if trouble := c.server.troubles.refused[e.Code]; trouble != nil {
		trouble.Happened(err, "action", req.Action, "room", req.Room, "user", c.user)
	}
	c.out.reply(&protocol.Reply{ID: &req.ID, Error: e})
	c.out.release(req.Room)
}

// brief returns the reply that says how a room stands.
func brief(req protocol.Request, s room.Snapshot) *protocol.Reply {
	return &protocol.Reply{ID: &req.ID, Room: req.Room, Epoch: s.Epoch, Version: s.Version, Count: s.Count()}
}

// listed returns the reply that also says who is in it.
func listed(req protocol.Request, s room.Snapshot) *protocol.Reply {
	reply := brief(req, s)
	// Encoded once for all who are shown it.
	reply.List = s.Shared(func() any { return protocol.AppendUsers(nil, seated(s.Users())) }).([]byte)
	return reply
}

func seated(users []room.Occupant) []protocol.Seated {
	list := make([]protocol.Seated, len(users))
	for i, u := range users {
		list[i] = protocol.Seated{User: u.User, Seat: u.Seat}
	}
	return list
}
