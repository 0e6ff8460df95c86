package transport

import (
	"context"
	"errors"

	"roomd/room"
)

// membership is a session's relation to one room: as a member, as a watcher, or both.
type membership struct {
	room    string
	session *session

	// Guarded by session.mu.

	unsubscribe func() // ends the room's events; nil without them

	member   bool // the client got a join reply, and has not left: the session has to be in the room
	unsure   bool // a join or a leave may or may not have been written
	watching bool // the client asked for the room's events

	seat     int           // of the last join
	standing room.Standing // the session's last known place

	requested bool          // a request of the client runs that may change these fields
	rejoining bool          // an action of a rejoin runs that may change them
	deferred  []*room.Event // came while either ran; its result says how to judge them

	following bool // the user was moved into the room, and the session is not there yet
	anew      bool // the session was brought back, and the client has not got the room since
	need      need
	rejoin    *rejoin // nil if none runs
}

// unusedLocked reports whether the session has nothing to do with the room.
func (m *membership) unusedLocked() bool { return !m.member && !m.unsure && !m.watching }

// removeLocked records that the session is not in the room.
func (m *membership) removeLocked() {
	m.unsure, m.following, m.anew, m.need = false, false, false, needNothing
	m.setMemberLocked(false)
}

// setMemberLocked says whether the client takes the session for a member. To a member the stream
// shows no room without it.
func (m *membership) setMemberLocked(member bool) {
	m.member = member
	user := ""
	if member {
		user = m.session.user
	}
	m.session.streams.setMember(m.room, user)
}

// recordJoin records how a join of the client ended. It reports whether the session was a
// member before, and is one after.
func (m *membership) recordJoin(result room.Result, err error) (before, after bool) {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	before = m.member
	switch {
	case err == nil:
		m.unsure, m.following, m.anew, m.need = false, false, false, needNothing
		m.setMemberLocked(true)
		m.standing.Out = false
		m.seat, m.standing = result.Seat, m.standing.Joined(result)
	case errors.Is(err, room.ErrUnknown):
		m.unsure = true
	case errors.Is(err, room.ErrFull), errors.Is(err, room.ErrRoomClosed), errors.Is(err, room.ErrBanned), errors.Is(err, room.ErrDuplicate):
		m.removeLocked() // a member does not get these, unless the seat was lost
	}
	return before, m.member
}

// recordLeave records how a leave of the client ended. It reports whether the session has
// nothing to do with the room any more.
func (m *membership) recordLeave(err error) (unused bool) {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, room.ErrNotMember):
		m.removeLocked()
	case errors.Is(err, room.ErrUnknown):
		// If the leave was written, the session must not be brought back.
		m.unsure, m.need = true, needNothing
		m.setMemberLocked(false)
	}
	return m.unusedLocked()
}

func (m *membership) isWatching() bool {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	return m.watching
}

func (m *membership) setWatching(watching bool) {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	m.watching = watching
}

// subscribe starts the room's events. They are held until the reply to the request.
func (m *membership) subscribe() error {
	s := m.session
	s.streams.of(s.user)
	s.streams.open(m.room)
	unsubscribe, err := s.server.rooms.Watch(s.watchContext(), m.room, m.receive)
	if err != nil {
		s.streams.drop(m.room)
		if errors.Is(err, context.DeadlineExceeded) {
			return errors.Join(room.ErrUnavailable, err)
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.unsubscribe = unsubscribe
	return nil
}

// unsubscribeUnlessNeeded ends the room's events, unless the session is a member or watches.
// Events that are queued are still written if sendQueued is true, and dropped if not.
func (m *membership) unsubscribeUnlessNeeded(sendQueued bool) {
	s := m.session
	s.mu.Lock()
	unsubscribe := m.unsubscribe
	if unsubscribe == nil || m.member || m.watching {
		s.mu.Unlock()
		return
	}
	m.unsubscribe = nil
	s.mu.Unlock()
	unsubscribe()
	if sendQueued {
		s.streams.end(m.room)
	} else {
		s.streams.drop(m.room)
	}
}

// endRequest ends what beginRequest began: it judges the events that came meanwhile, before the
// client gets them, and starts a rejoin if one is needed.
func (m *membership) endRequest() {
	s := m.session
	s.mu.Lock()
	defer s.mu.Unlock()
	m.requested = false
	m.judgeDeferredLocked()
	if m.unusedLocked() && m.unsubscribe == nil {
		delete(s.memberships, m.room)
		return
	}
	m.settleLocked(nil, false)
}
