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
		ctx := s.turns.contextLocked(s.server.life)
		s.rejoins.Go(func() { s.follow(ctx, why.to) })
	}
}

// follow makes the session a member of the room to which its user was moved. The client gets a
// snapshot of that room, or hears that there is no seat. The limit of rooms does not count: the
// session has left another one.
func (s *session) follow(ctx context.Context, id string) {
	var pause backoff
	for s.tryFollow(id) && pause.wait(ctx) {
	}
}

// tryFollow reports whether follow has to try again.
func (s *session) tryFollow(id string) (again bool) {
	s.turns.beginFollow(id)
	defer s.turns.endFollow(id)
	m, err := s.beginRequest(id)
	if err != nil { // replaced
		return false
	}
	if m == nil {
		m = s.addMembership(id)
	}
	defer m.endRequest()
	if m.unsubscribe == nil { // as in beginSubscribed
		if err = m.subscribe(); err != nil {
			return isTransient(err)
		}
	}
	m.bringBack()
	s.streams.release(id)
	return false
}

// bringBack makes the session one that has to get its place in the room, as if it had lost it.
func (m *membership) bringBack() {
	s := m.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.member || s.closed {
		return
	}
	m.seat = room.AnySeat // that of the reservation
	m.setMemberLocked(true)
	m.need, m.following = needJoin, true
	m.parkLocked()
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
