package session

import (
	"errors"

	"roomd/room"
	"roomd/transport/internal/membership"
)

func leave(r *request) {
	p, err := r.session.begin(r.in.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	defer p.end()
	result, err := p.leave()
	p.endEvents(false)
	if err != nil {
		r.refuse(err)
		return
	}
	r.replyCount(result.Snapshot)
	if r.mayWatch(result.Snapshot) != nil {
		p.endWatchAfterLeave(result.Snapshot)
	}
}

// leave removes the session from the room, even if it has not followed its user there yet. If it was removed before,
// the client is told of the loss before the reply.
func (p *presence) leave() (result room.Result, err error) {
	s := p.session
	left := false    // an earlier iteration left, and then a move came
	retaken := false // it tried to take the seat reserved for the user
	for again := true; again; {
		if p.status() == membership.Following {
			action, _ := p.membership.Next()
			taken, failed := p.take(s.shared.Life, action, left)
			if failed != nil && !errors.Is(failed, room.ErrDuplicate) { // the leave below reports ErrDuplicate better
				return p.notTaken(left, result, taken, failed)
			}
		}
		var now room.Result
		if now, err = s.shared.do(p.room, room.Leave{User: s.User, Session: s.ID}); err == nil {
			result, left = now, true
		}
		var failed error
		absent := errors.Is(err, room.ErrNotMember) && !errors.Is(err, room.ErrDuplicate)
		if !retaken && absent && p.status().IsMember() && isListed(now.Snapshot, room.AnySeat, s.User) {
			// The user may have been moved away and back, without an event so far.
			retaken = true
			rejoin := room.Join{User: s.User, Session: s.ID, Mode: room.JoinAgain}
			if _, failed = s.shared.do(p.room, rejoin); failed == nil {
				continue
			}
		}
		again = p.recordLeave(now, errors.Join(err, failed))
	}
	return result, err
}

// notTaken records that the session could not take its user's seat before leaving. left says that it has left before.
func (p *presence) notTaken(left bool, result, taken room.Result, err error) (room.Result, error) {
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, _ := p.membership.Answer(taken, err)
	switch {
	case left && (lost == nil || lost.Target == ""):
		return result, nil
	case lost == nil:
		return result, err
	}
	p.loseLocked(lost, nil, true)
	if left {
		return result, nil
	}
	return result, room.Refuse(room.ErrNotMember, "%s is not in room %s", s.User, p.room)
}

// recordLeave records the result of a leave. It reports whether the user came back by a move: then leave again.
func (p *presence) recordLeave(result room.Result, err error) (again bool) {
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost := p.membership.LeaveReply(result, err); lost != nil {
		p.loseLocked(lost, nil, true)
	}
	if err == nil {
		s.leftLocked(p.room)
	}
	if again = p.moved && p.membership.Status == membership.Outside; again {
		p.moved = false
		p.membership.Take(membership.Moved)
	}
	return again
}
