package transport

import (
	"context"

	"roomd/room"
)

// endedLocked records that somebody has taken the session's place away for good, and tells the
// client why. A session that was moved goes after its user.
func (m *membership) endedLocked(e *room.Event) {
	why := lostEvent{reason: string(room.ReasonLeft)} // what happened was missed, or the user has left by another session
	if c, ok := e.LeaveOf(m.session.user); ok {
		why.reason = string(c.Reason)
		if c.Detail != nil {
			why.text, why.to = c.Text, c.Target
		}
	}
	m.loseLocked(why)
	m.need = needEnd
	if s := m.session; why.to != "" && !s.closed && !s.replaced {
		s.rejoins.Go(func() { s.follow(why.to) })
	}
}

// follow makes the session a member of the room to which its user was moved. The client gets a
// snapshot of that room, or hears that there is no seat. The limit of rooms does not count: the
// session has left another one.
func (s *session) follow(id string) {
	var pause backoff
	for {
		m, err := s.beginRequest(id)
		switch {
		case err != nil: // replaced
			return
		case m == nil:
			m = s.addMembership(id)
		}
		if m.unsubscribe == nil { // as in beginSubscribed
			err = m.subscribe()
		}
		if err == nil {
			m.bringBack()
			s.streams.release(id)
			m.endRequest()
			return
		}
		m.endRequest()
		if !isTransient(err) || !pause.wait(s.server.life) || s.isClosed() {
			return
		}
	}
}

// bringBack makes the session one that has to get its place in the room, as if it had lost it.
func (m *membership) bringBack() {
	s := m.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.member {
		return
	}
	m.seat = room.AnySeat // that of the reservation
	m.setMemberLocked(true)
	m.need = needJoin
	m.parkLocked()
}

func (s *session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Reserve seats users who have not come yet in a room: all of them, or none. Each keeps the seat
// for Options.Grace, and is shown as away, until a session of the user joins. It fails with the
// errors of [Rooms].Do.
func (s *Server) Reserve(ctx context.Context, id string, users ...string) (room.Result, error) {
	held, err := s.graces.reserve(id, users)
	if err != nil {
		return room.Result{}, err
	}
	result, err := s.rooms.Do(ctx, id, room.Reserve(held.session, users...))
	held.settle(err)
	return result, err
}

// Move takes users from one room to another: all of them, or none. Their sessions join the other
// room by themselves; who has none there keeps the seat for Options.Grace. It fails with the errors
// of [Rooms].Move.
func (s *Server) Move(ctx context.Context, from, to string, users ...string) (left, joined room.Result, err error) {
	held, err := s.graces.reserve(to, users)
	if err != nil {
		return left, joined, err
	}
	left, joined, err = s.rooms.Move(ctx, from, to, held.session, users...)
	held.settle(err)
	return left, joined, err
}
