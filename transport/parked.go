package transport

import (
	"slices"

	"roomd/room"
)

// A stream is parked while its session is a member and may have lost its place, until the session's
// node has brought it back. Then the client gets the room as it is by then, in place of what the
// stream has kept back. So a member never sees a room without itself.

// isParked reports whether nothing may be written now, for whatever reason but a request that runs.
func (s *stream) isParked() bool { return s.parked || s.lacks || s.missed != nil }

// isLate reports whether an event is of an epoch that is over for the client. A new one begins with
// a snapshot, or where there was no room.
func (s *stream) isLate(e *room.Event) bool {
	return e.Snapshot == nil && s.epoch != "" && e.Epoch != s.epoch && e.From > 0
}

// showsLack reports whether an event, or what it makes of the room, lacks the member.
func (s *stream) showsLack(e *room.Event) bool {
	switch {
	case s.member == "":
		return false
	case e.Snapshot != nil:
		_, seated := e.SeatOf(s.member)
		return !seated
	case e.Epoch != s.epoch: // the room begins anew, with these alone
		return !s.has(e, room.KindJoin)
	}
	return s.has(e, room.KindLeave)
}

// has reports whether an event has a change of that kind about the member.
func (s *stream) has(e *room.Event, kind room.Kind) bool {
	return slices.ContainsFunc(e.Changes, func(c room.Change) bool { return c.Type == kind && c.User == s.member })
}

// setMember says whether the session is a member: then as which user, else "".
func (t *streams) setMember(id, user string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil {
		s.member = user
		s.lacks = s.lacks && user != ""
	}
}

// park keeps a room's events back until resume.
func (t *streams) park(id string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil {
		s.parked = true
	}
}

// resume ends park. now, if not nil, is the room as an action of the session has found it. The
// client gets it in place of what is pending up to it, if anew says so, or if that cannot be
// written. resume reports false, and the stream stays parked, if only a later snapshot will do.
func (t *streams) resume(id string, now *listing, anew bool) bool {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	s := t.byRoom[id]
	if s == nil || s.ended {
		return true
	}
	if now != nil && (anew || s.lacks || s.missed != nil) {
		s.restartLocked(t.out, now)
	}
	if s.lacks || s.missed != nil {
		return false
	}
	s.parked = false
	t.out.enqueueLocked(s)
	return true
}

// restartLocked replaces what is pending up to a snapshot, unless the client has that version, or
// the snapshot lacks the member, or does not make up for what was dropped.
func (s *stream) restartLocked(o *outbox, now *listing) {
	s.coverLocked(now.Epoch, now.Version)
	if s.missed != nil || s.isSent(now.Epoch, now.Version) || s.member != "" && !now.has(s.member) {
		return
	}
	behind := s.behind(now.Epoch, now.Version)
	// What came since the action began is judged again after it, and is here only if nothing came
	// of that. So another epoch without the member came before, and is over.
	if s.lacks && len(behind) > 0 && behind[0].Epoch != now.Epoch {
		behind = nil
	}
	s.clearLocked(o)
	if len(behind) == 0 || behind[0].Snapshot == nil {
		s.pending, s.epoch, s.version = append(s.pending, now.event(s.room)), now.Epoch, now.Version
	}
	for _, e := range behind {
		s.appendLocked(o, e)
	}
}

// coverLocked records that the client gets the room at a version.
func (s *stream) coverLocked(epoch string, version uint64) {
	if s.missed != nil && s.missed.Epoch == epoch && s.missed.Version <= version {
		s.missed = nil
	}
}

// dropParkedLocked drops what the parked streams keep back. A snapshot will stand for it.
func (t *streams) dropParkedLocked() {
	for _, s := range t.byRoom {
		if s.isParked() && len(s.pending) > 0 {
			s.missed = &room.Position{Epoch: s.epoch, Version: s.version}
			t.out.dequeueLocked(s)
			s.clearLocked(t.out)
		}
	}
}

// lost tells the client that its session has no seat in the room any more. Unless the client
// watches, that is the last it hears of the room; else the events go on behind it.
func (t *streams) lost(id string, why lostEvent, watching bool) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	s := t.byRoom[id]
	if s == nil {
		return
	}
	t.out.dequeueLocked(s)
	t.out.pushLocked(why.frame(id))
	t.out.startLocked()
	s.member, s.lacks = "", false
	if watching {
		t.out.enqueueLocked(s)
		return
	}
	s.clearLocked(t.out)
	t.endLocked(id, s)
}
