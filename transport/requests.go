package transport

import (
	"errors"
	"fmt"

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
	if err == nil {
		err = s.ifListed(result)
	}
	before, after := m.recordJoin(result, err)
	if err == nil {
		reply := listReply(req, result.Snapshot)
		reply.Seat = &result.Seat
		s.streams.replyList(reply)
		return
	}
	s.refuse(req, err)
	lost := before && !after
	if lost {
		s.streams.lost(m.room, lostEvent{reason: toProtocol(err).Code}, m.isWatching())
	}
	m.unsubscribeUnlessNeeded(before)
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
		m.unsubscribeUnlessNeeded(false)
	}
	if err != nil {
		s.refuse(req, err)
		return
	}
	s.out.push(replyFrame(countReply(req, result.Snapshot)))
}

func (s *session) users(req protocol.Request) {
	snapshot, err := s.readWhole(req.Room)
	if err != nil {
		s.refuse(req, err)
		return
	}
	s.streams.replyList(listReply(req, snapshot))
}

// watch reads the room first: while the session is a member and its place is in doubt, that takes
// the rejoin which beginSubscribed would cancel.
func (s *session) watch(req protocol.Request) {
	if s.isMember(req.Room) {
		if _, err := s.readWhole(req.Room); err != nil {
			s.refuse(req, err)
			return
		}
	}
	m, err := s.beginSubscribed(req.Room)
	if err != nil {
		s.refuse(req, err)
		return
	}
	defer m.endRequest()
	snapshot, err := s.server.rooms.Read(s.server.life, req.Room)
	if err == nil && m.isLackedBy(snapshot) {
		err = fmt.Errorf("%w: the session's place was lost again", room.ErrUnavailable)
	}
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
}

// countReply returns a reply with the room's version and number of members.
func countReply(req protocol.Request, s room.Snapshot) *protocol.Reply {
	return &protocol.Reply{ID: &req.ID, Room: req.Room, Epoch: s.Epoch, Version: s.Version, Count: s.Count()}
}

// listReply returns a countReply that also lists the members.
func listReply(req protocol.Request, s room.Snapshot) *protocol.Reply {
	reply := countReply(req, s)
	reply.Settings, reply.Data = settingsOf(s.Settings), protocol.JSON(s.Data)
	reply.List = encodedOf(s).users
	return reply
}
