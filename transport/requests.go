package transport

import (
	"errors"

	"roomd/room"
	"roomd/transport/protocol"
)

func (s *session) join(req protocol.Request) {
	action := room.Join(s.user, s.id)
	if req.Seat != nil {
		action = action.At(*req.Seat)
	}
	m, err := s.beginSubscribed(req.Room)
	if err != nil {
		s.refuse(req, err)
		return
	}
	defer m.endRequest()
	result, err := s.do(req.Room, action)
	before, after := m.recordJoin(result, err)
	if err == nil {
		reply := listReply(req, result.Snapshot)
		reply.Seat = &result.Seat
		s.streams.replyList(reply)
		return
	}
	lost := before && !after
	if lost {
		s.streams.lost(m.room, toProtocol(err).Code, m.isWatching())
	}
	m.unsubscribeUnlessNeeded(before)
	s.refuse(req, err)
	if lost && errors.Is(err, room.ErrDuplicate) {
		s.end(protocol.CloseReplaced, "replaced by a newer session")
	}
}

func (s *session) leave(req protocol.Request) {
	m, err := s.beginRequest(req.Room)
	if err != nil {
		s.refuse(req, err)
		return
	}
	if m != nil {
		defer m.endRequest()
	}
	result, err := s.do(req.Room, room.Leave(s.user, s.id))
	if m != nil && m.recordLeave(err) {
		m.unsubscribeUnlessNeeded(err != nil)
	}
	if err != nil {
		s.refuse(req, err)
		return
	}
	s.out.push(replyFrame(countReply(req, result.Snapshot)))
	s.streams.release(req.Room) // for a session that also watches
}

func (s *session) users(req protocol.Request) {
	snapshot, err := s.server.rooms.Read(s.server.life, req.Room)
	if err != nil {
		s.refuse(req, err)
		return
	}
	s.streams.replyList(listReply(req, snapshot))
}

func (s *session) watch(req protocol.Request) {
	m, err := s.beginSubscribed(req.Room)
	if err != nil {
		s.refuse(req, err)
		return
	}
	defer m.endRequest()
	snapshot, err := s.server.rooms.Read(s.server.life, req.Room)
	if err != nil {
		m.unsubscribeUnlessNeeded(false)
		s.refuse(req, err)
		return
	}
	m.setWatching(true)
	s.streams.replyList(listReply(req, snapshot))
}

// unwatch is no error for a session that does not watch. A member's events go on.
func (s *session) unwatch(req protocol.Request) {
	m, err := s.beginRequest(req.Room)
	if err != nil {
		s.refuse(req, err)
		return
	}
	if m != nil {
		defer m.endRequest()
	}
	snapshot, err := s.server.rooms.Read(s.server.life, req.Room)
	if err != nil {
		s.refuse(req, err)
		return
	}
	if m != nil {
		m.setWatching(false)
		m.unsubscribeUnlessNeeded(false)
	}
	s.out.push(replyFrame(countReply(req, snapshot)))
	s.streams.release(req.Room)
}

// countReply returns a reply with the room's version and number of members.
func countReply(req protocol.Request, s room.Snapshot) *protocol.Reply {
	return &protocol.Reply{ID: &req.ID, Room: req.Room, Epoch: s.Epoch, Version: s.Version, Count: s.Count()}
}

// listReply returns a countReply that also lists the members.
func listReply(req protocol.Request, s room.Snapshot) *protocol.Reply {
	reply := countReply(req, s)
	reply.Settings = settingsOf(s.Settings)
	// Encoded once per snapshot, however many clients get it.
	reply.List = s.Shared(func() any { return protocol.AppendUsers(nil, seated(s.Users())) }).([]byte)
	return reply
}

func seated(users []room.Occupant) []protocol.Seated {
	list := make([]protocol.Seated, len(users))
	for i, u := range users {
		list[i] = protocol.Seated{User: u.User, Seat: u.Seat, Away: u.Away}
	}
	return list
}
