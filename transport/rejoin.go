package transport

import (
	"context"
	"errors"

	"roomd/room"
)

// need is what a session has to do in a room without a request of its client, the most
// urgent last.
type need int

const (
	needNothing need = iota
	needEnd          // end the room's events: the place is lost for good
	needConfirm      // ask whether the session still speaks for its user
	needJoin         // join again: the place was lost, and no other session of the user has it
	needLeave        // leave again: the rejoin came after a newer session had joined and left
)

// rejoin runs the actions that a membership needs. Meanwhile the room's stream is parked; at the
// end the client gets the room as it is then, or hears that its seat is lost.
type rejoin struct {
	m      *membership
	cancel context.CancelFunc
	done   chan struct{}
}

// startRejoinLocked starts a rejoin if one is needed. While a request of the client runs it
// does not: the request may make it needless.
func (m *membership) startRejoinLocked() {
	s := m.session
	if m.need == needNothing || m.requested || m.rejoin != nil || s.closed {
		return
	}
	ctx, cancel := context.WithCancel(s.server.life)
	r := &rejoin{m, cancel, make(chan struct{})}
	m.rejoin = r
	s.rejoins.Go(func() {
		defer close(r.done)
		defer cancel()
		r.run(ctx)
	})
}

// run runs one action after the other until nothing is needed, or ctx ends.
func (r *rejoin) run(ctx context.Context) {
	var pause backoff
	anySeat := false
	for {
		need, action := r.next(ctx, anySeat)
		switch need {
		case needNothing:
			return
		case needEnd:
			r.end()
			return
		}
		result, err := r.m.session.server.rooms.Do(ctx, r.m.room, action)
		if err == nil && need != needLeave {
			err = r.m.session.ifListed(result)
		}
		handled, again := r.record(ctx, need, result, err)
		switch {
		case again:
			pause.wait(ctx)
		case handled:
		case errors.Is(err, room.ErrSeatTaken), errors.Is(err, room.ErrInvalid) && !anySeat: // the room may have fewer seats by now
			anySeat = true
		case isTransient(err):
			pause.wait(ctx)
		default:
			r.giveUp(err)
			return
		}
	}
}

// next returns what is needed and the action for it. If that is nothing, the rejoin is over.
func (r *rejoin) next(ctx context.Context, anySeat bool) (need, room.Action) {
	m, s := r.m, r.m.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.need == needNothing || ctx.Err() != nil {
		m.rejoin = nil
		return needNothing, room.Action{}
	}
	m.rejoining = m.need != needEnd
	switch {
	case m.need == needJoin && m.following:
		return m.need, room.Join(s.user, s.id).Following()
	case m.need == needEnd:
		return m.need, room.Action{}
	case m.need == needConfirm:
		return m.need, room.Keep(s.user, s.id)
	case m.need == needLeave:
		return m.need, room.Leave(s.user, s.id)
	case anySeat:
		return m.need, room.Join(s.user, s.id).Again()
	}
	return m.need, room.Join(s.user, s.id).Again().At(m.seat)
}

// record records how an action for a need ended, and judges the events that came meanwhile.
// It reports whether the action needs no further treatment, and whether events on their way have
// to come before it is asked again what became of the place.
func (r *rejoin) record(ctx context.Context, need need, result room.Result, err error) (handled, again bool) {
	m := r.m
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	m.rejoining = false
	if err != nil && ctx.Err() != nil {
		return true, false // endRequest judges the events
	}
	watches := !m.member && !m.unsure // and has no place that it could lose
	absent := errors.Is(err, room.ErrNotMember) || watches && errors.Is(err, room.ErrDuplicate)
	switch {
	case need == needLeave && (err == nil || absent):
		m.replacedLocked()
		return true, false
	case errors.Is(err, room.ErrDuplicate) && m.following:
		return false, false
	case errors.Is(err, room.ErrDuplicate) && !watches:
		m.replacedLocked()
		return true, false
	case err == nil:
		m.need, m.seat, m.standing, m.following = needNothing, result.Seat, m.standing.Joined(result), false
	case absent && m.following:
		return false, false // somebody has taken the user out there, too
	case absent && !m.member:
		m.removeLocked()
	case absent:
		m.need = needNothing // an event on its way, or a snapshot, says why
		if fate, standing := m.standing.Missing(result); fate == room.Removed {
			m.need, m.standing = needJoin, standing
		}
	}
	m.judgeDeferredLocked()
	if handled = err == nil || absent; !handled {
		m.settleLocked(nil, false)
		return false, false
	}
	m.settleLocked(&listing{result.Snapshot, result.Seat}, need == needJoin && err == nil)
	return true, m.need == needConfirm
}

// giveUp records that the place is lost for good, because the room is full now, and tells
// the client.
func (r *rejoin) giveUp(why error) {
	if errors.Is(why, room.ErrClosed) {
		return // the node shuts down, and closes its connections
	}
	m, s := r.m, r.m.session
	s.server.troubles.lostSeats.Happened(why, "room", m.room, "user", s.user)
	s.mu.Lock()
	if m.member {
		m.loseLocked(lostEvent{reason: toProtocol(why).Code})
	} else {
		m.removeLocked()
	}
	s.mu.Unlock()
	r.end()
}

// end ends the room's events, unless the client watches, and the rejoin.
func (r *rejoin) end() {
	m, s := r.m, r.m.session
	m.unsubscribeUnlessNeeded(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.rejoin = nil
	if m.need == needEnd {
		m.need = needNothing
	}
	// beginRequest, which may wait for this goroutine, then finds no membership.
	if m.unusedLocked() {
		delete(s.memberships, m.room)
		return
	}
	m.settleLocked(nil, false)
}

// loseLocked records that the session is not in the room any more, and tells the client.
func (m *membership) loseLocked(why lostEvent) {
	m.removeLocked()
	m.session.streams.lost(m.room, why, m.watching)
}
