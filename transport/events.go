package transport

import (
	"roomd/room"
	"roomd/transport/protocol"
)

// receive is where an event of a room enters a connection: it judges what the event says of
// the session's own place, and passes it on to the room's stream. The room calls it for each
// event, in order; it does not block.
func (m *membership) receive(e *room.Event) {
	s := m.session
	if !e.Concerns(s.user) {
		m.pass(e)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.requested || m.rejoining {
		m.deferred = append(m.deferred, e) // only the result says which of the two is newer
		m.pass(e)                          // the stream is held or parked until then
		return
	}
	if !m.judgeLocked(e) { // the session was replaced: the event is for the newer one
		return
	}
	m.parkLocked()
	m.pass(e)
	m.settleLocked(nil, false)
}

// pass passes an event on to the room's stream.
func (m *membership) pass(e *room.Event) {
	s := m.session
	if !e.Rejoin && !s.streams.push(e) {
		s.server.opts.Trace.refused(LimitQueue)
		s.end(protocol.CloseTooSlow, "events were not read fast enough")
	}
}

// parkLocked parks the room's stream if the session may have lost its place.
func (m *membership) parkLocked() {
	if m.need > needEnd {
		m.session.streams.park(m.room)
	}
}

// settleLocked is called when events were judged: it starts a rejoin if one is needed, and else
// lets the room's stream go on; now and anew are those of streams.resume.
func (m *membership) settleLocked(now *listing, anew bool) {
	m.anew = m.anew || anew
	if m.need == needNothing {
		if m.anew && now == nil || !m.session.streams.resume(m.room, now, m.anew) {
			m.need = needConfirm // its result has a later list
		} else {
			m.anew = false
		}
	}
	m.parkLocked()
	m.startRejoinLocked()
}

func (m *membership) judgeDeferredLocked() {
	deferred := m.deferred
	m.deferred = nil
	for _, e := range deferred {
		if !m.judgeLocked(e) {
			return
		}
	}
}

// judgeLocked sets what the session needs after an event. It reports false if the session
// was replaced.
func (m *membership) judgeLocked(e *room.Event) bool {
	if !m.member && !m.unsure || m.following {
		return true
	}
	fate, standing := m.standing.After(e)
	switch {
	case m.need == needLeave && (fate == room.Removed || fate == room.Ended):
		m.replacedLocked()
		return false
	case m.need == needLeave:
	case fate == room.Replaced && m.member && m.standing.Overtook(e):
		m.need = needLeave
	case (fate == room.Replaced || fate == room.Ended) && m.unsure:
		m.need = needConfirm // the action whose outcome is unknown may be newer
	case fate == room.Replaced:
		m.replacedLocked()
		return false
	case fate == room.Ended && m.member:
		m.endedLocked(e)
	case fate == room.Speaks:
		m.need = needNothing
		if seat, seated := e.SeatOf(m.session.user); seated {
			m.seat = seat // an old copy of Redis' data may have another one
		}
	case fate == room.Removed && m.member:
		m.need = needJoin
	case (fate == room.Doubtful || e.Rejoin) && m.member:
		m.need = max(m.need, needConfirm)
	}
	m.standing = standing
	return true
}

// replacedLocked closes the connection, because a newer session speaks for its user. The
// client gets no further event of the room.
func (m *membership) replacedLocked() {
	m.session.streams.end(m.room)
	m.removeLocked()
	m.session.replaced = true
	m.session.end(protocol.CloseReplaced, "replaced by a newer session")
}
