package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"roomd/room"
	"roomd/transport/internal/membership"
	"roomd/transport/protocol"
)

func join(r *request) {
	s := r.session
	action := room.Join{User: s.User, Session: s.ID, Seat: r.in.Seat, Expect: r.in.Condition()}
	r.enter(action, func(result room.Result, err error) {
		if errors.Is(err, room.ErrConflict) {
			r.refuseConflict(result.Snapshot, err)
		} else {
			r.refuse(err)
		}
	})
}

// enter runs a join, replies with the list, and returns the result. If the join fails, it calls refuse to reply.
func (r *request) enter(action room.Join, refuse func(room.Result, error)) (result room.Result) {
	s := r.session
	p, err := r.controlSubscribed()
	if err != nil {
		refuse(result, err)
		return result
	}
	defer p.end()
	action.Yield = s.conn.IsOver() // after the client's close the join must not replace the user's next session
	result, err = r.doJoin(action)
	if err == nil {
		err = ifListed(result, s.User)
	}
	s.mu.Lock()
	lost := p.membership.JoinReply(result, err)
	if lost != nil {
		p.loseLocked(lost, nil, true)
	}
	s.mu.Unlock()
	if err == nil {
		// The list replaces events that already wait, if the client had some of the room before.
		r.said = r.missed(result.Snapshot)
		r.replyList(result.Snapshot, &result.Seat, r.in.Brief && r.subscribed)
		return result
	}
	p.endEvents() // before the reply, which would bring them to a session that may not see the room
	refuse(result, err)
	return result
}

// controlSubscribed is control for a join or a watch: it also subscribes, and refuses one room too many.
func (r *request) controlSubscribed() (*presence, error) {
	s, id := r.session, r.in.Room
	if err := s.admit(id); err != nil {
		return nil, err
	}
	p, err := s.control(id)
	if err != nil {
		return nil, err
	}
	if r.subscribed, err = p.subscribe(); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// doJoin runs a join. It creates no room if the user has created too many of late.
func (r *request) doJoin(action room.Join) (room.Result, error) {
	s := r.session
	limit := s.shared.Limits.newRooms()
	newRooms := &s.throttle.user.newRooms
	wait := newRooms.take(limit, s.shared.Clock())
	if wait > 0 {
		action.Existing = true
	}
	member := s.isMember(r.in.Room)
	result, err := s.shared.do(r.in.Room, action)
	begun := err == nil && result.Version == 1 && !member || errors.Is(err, room.ErrUnknown)
	switch {
	case errors.Is(err, room.ErrNoRoom):
		err = s.throttle.tooManyRooms(wait)
	case wait == 0 && !begun:
		newRooms.undo(limit)
	}
	return result, err
}

// keptTimeout bounds the wait for a room's kept messages after a join that was written.
const keptTimeout = 2 * time.Second

// missed returns the earlier messages for the reply to a join or a watch: at most as many as the request asks for, and
// only those after the version that it expects, if any. A session that already had the room's events gets none.
func (r *request) missed(now room.Snapshot) (said []protocol.Said) {
	s, most := r.session, 0
	switch {
	case r.in.History != nil:
		most = *r.in.History
	case r.in.Expect != nil:
		most = protocol.MaxHistory
	}
	if !r.subscribed || most == 0 || now.Settings.History == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.shared.Life, keptTimeout)
	defer cancel()
	backoff := NewBackoff()
	kept, err := s.shared.Rooms.Kept(ctx, r.in.Room, now.Settings.History)
	for err != nil && backoff.Wait(ctx) == nil {
		kept, err = s.shared.Rooms.Kept(ctx, r.in.Room, now.Settings.History)
	}
	for _, m := range kept.Missed(now, r.in.Condition(), s.viewer(r.in.Room), most) {
		one := protocol.Said{
			Epoch: m.Epoch, Version: m.Version, User: m.User, Text: m.Text, Data: protocol.JSON(m.Data), To: m.To,
		}
		if m.Epoch == now.Epoch {
			one.Epoch = ""
		}
		said = append(said, one)
	}
	return said
}

func leave(r *request) {
	p, err := r.session.control(r.in.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	defer p.end()
	result, err := p.leave()
	p.endEvents()
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

// notTaken records that the session could not take its user's seat before leaving: taken and err are the result. It
// returns the answer to the leave: result if an earlier leave was done (left), otherwise an error.
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

// ifListed returns room.ErrUnknown if the result of an action lacks its user: another action of that commit has
// removed the user. An event says why.
func ifListed(result room.Result, user string) error {
	if isListed(result.Snapshot, result.Seat, user) {
		return nil
	}
	return fmt.Errorf("%w: the place was taken away in the same commit", room.ErrUnknown)
}

// isListed reports whether a user is in a room; seat is where it looks first.
func isListed(now room.Snapshot, seat int, user string) bool {
	users := now.Users()
	i, found := slices.BinarySearchFunc(users, seat, func(o room.Occupant, seat int) int {
		return cmp.Compare(o.Seat, seat)
	})
	is := func(o room.Occupant) bool { return o.User == user }
	return found && is(users[i]) || slices.ContainsFunc(users, is)
}
