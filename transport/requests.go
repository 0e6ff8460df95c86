package transport

import (
	"errors"
	"fmt"

	"roomd/room"
	"roomd/transport/protocol"
)

// ping shows the client that the connection works, and not more than that: it asks nothing of Redis.
func (r *request) ping() {
	if r.access != nil {
		if err := r.access.permit(r.Request, false); err != nil {
			r.refuse(err)
			return
		}
	}
	r.out.push(replyFrame(&protocol.Reply{ID: &r.ID}))
}

func (r *request) join() {
	action := room.Join(r.user, r.id)
	if r.Seat != nil {
		action = action.At(*r.Seat)
	}
	if r.Expect != nil {
		action = action.Unchanged(r.Epoch, *r.Expect)
	}
	m, err := r.beginSubscribed(r.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	defer m.endRequest()
	result, err := r.do(r.Room, action)
	if err == nil {
		err = r.ifListed(result)
	}
	before, after := m.recordJoin(result, err)
	if err == nil {
		reply := listReply(&r.Request, result.Snapshot)
		reply.Seat = &result.Seat
		r.streams.replyList(reply)
		return
	}
	if errors.Is(err, room.ErrConflict) { // a member's own event says the same, and ends the place
		r.refuseConflict(result.Snapshot, err)
	} else {
		r.refuse(err)
	}
	lost := before && !after
	if lost {
		r.streams.lost(m.room, lostEvent{reason: toProtocol(err).Code}, m.isWatching())
	}
	m.unsubscribeUnlessNeeded(before)
	if lost && errors.Is(err, room.ErrDuplicate) {
		r.end(protocol.CloseReplaced, "replaced by a newer session")
	}
}

func (r *request) leave() {
	m, err := r.beginRequest(r.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	if m != nil {
		defer m.endRequest()
	}
	result, err := r.do(r.Room, room.Leave(r.user, r.id))
	if m != nil && m.recordLeave(err) {
		m.unsubscribeUnlessNeeded(false)
	}
	if err != nil {
		r.refuse(err)
		return
	}
	r.out.push(replyFrame(countReply(&r.Request, result.Snapshot)))
}

func (r *request) users() {
	snapshot, err := r.readWhole(r.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	r.streams.replyList(listReply(&r.Request, snapshot))
}

// watch reads the room first: while the session is a member and its place is in doubt, that takes
// the rejoin which beginSubscribed would cancel.
func (r *request) watch() {
	if r.isMember(r.Room) {
		if _, err := r.readWhole(r.Room); err != nil {
			r.refuse(err)
			return
		}
	}
	m, err := r.beginSubscribed(r.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	defer m.endRequest()
	snapshot, err := r.server.rooms.Read(r.server.life, r.Room)
	if err == nil && m.isLackedBy(snapshot) {
		err = fmt.Errorf("%w: the session's place was lost again", room.ErrUnavailable)
	}
	if err != nil {
		m.unsubscribeUnlessNeeded(false)
		r.refuse(err)
		return
	}
	m.setWatching(true)
	r.streams.replyList(listReply(&r.Request, snapshot))
}

// unwatch is no error for a session that does not watch. A member's events go on.
func (r *request) unwatch() {
	m, err := r.beginRequest(r.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	if m != nil {
		defer m.endRequest()
	}
	snapshot, err := r.server.rooms.Read(r.server.life, r.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	if m != nil {
		m.setWatching(false)
		m.unsubscribeUnlessNeeded(false)
	}
	r.out.push(replyFrame(countReply(&r.Request, snapshot)))
}

// countReply returns a reply with the room's version and number of members.
func countReply(req *protocol.Request, s room.Snapshot) *protocol.Reply {
	return &protocol.Reply{ID: &req.ID, Room: req.Room, Epoch: s.Epoch, Version: s.Version, Count: s.Count()}
}

// listReply returns a countReply that also lists the members.
func listReply(req *protocol.Request, s room.Snapshot) *protocol.Reply {
	reply := countReply(req, s)
	reply.Settings, reply.Data = settingsOf(s.Settings), protocol.JSON(s.Data)
	reply.List = encodedOf(s).users
	return reply
}
