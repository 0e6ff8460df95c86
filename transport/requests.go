package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

// ping shows the client that the connection works, and not more than that: it asks nothing of Redis.
func (r *request) ping() {
	if err := r.permit(); err != nil {
		r.refuse(err)
		return
	}
	r.session.out.Push(frames.Reply(&protocol.Reply{ID: &r.in.ID, Time: time.Now().UnixMilli()}))
}

func (r *request) join() {
	action := r.joinAction()
	action.Expect = r.in.Condition()
	if r.in.Seat != nil {
		action.Seat = room.At(*r.in.Seat)
	}
	r.enter(action, func(result room.Result, err error) {
		if errors.Is(err, room.ErrConflict) {
			r.refuseConflict(result.Snapshot, err)
		} else {
			r.refuse(err)
		}
	})
}

func (r *request) joinAction() room.Join {
	return room.Join{User: r.session.user, Session: r.session.id}
}

// enter runs a join, replies with the list, and returns the result. If it fails it has refuse say so.
func (r *request) enter(action room.Join, refuse func(room.Result, error)) (result room.Result) {
	s := r.session
	p, err := r.beginSubscribed()
	if err != nil {
		refuse(result, err)
		return result
	}
	defer p.end()
	action.Yield = s.isOver() // or it would replace the session with which the user has come back since
	result, err = r.doJoin(action)
	if err == nil {
		err = s.ifListed(result)
	}
	before := p.status().IsMember()
	s.mu.Lock()
	lost := p.membership.JoinReply(result, err)
	if lost != nil {
		p.loseLocked(lost, nil, true)
	}
	s.mu.Unlock()
	if err == nil {
		// Where the client has events of the room already, some may wait: then the list stands for them.
		r.said = r.missed(result.Snapshot)
		r.replyList(result.Snapshot, &result.Seat, r.in.Brief && r.held == nil)
		return result
	}
	refuse(result, err)
	p.endEvents(before)
	return result
}

// doJoin runs a join, which begins a room only if the user has not begun too many of late.
func (r *request) doJoin(action room.Join) (room.Result, error) {
	s := r.session
	limit := s.server.limits.Load().newRooms
	wait := s.throttle.newRoom(limit)
	if wait > 0 {
		action.Existing = true
	}
	member := s.isMember(r.in.Room)
	result, err := s.do(r.in.Room, action)
	begun := err == nil && result.Version == 1 && !member || errors.Is(err, room.ErrUnknown)
	switch {
	case errors.Is(err, room.ErrNoRoom):
		err = s.throttle.tooManyRooms(wait)
	case wait == 0 && !begun:
		s.throttle.noNewRoom(limit)
	}
	return result, err
}

// keptTimeout bounds the wait for what a room has kept, after a join that was done.
const keptTimeout = 2 * time.Second

// missed returns the messages of before that go with the reply to a join or a watch: those that it asks for, or, of who comes back,
// those behind the version expected. What is said behind the list of the reply comes as events, and a session that got events of the room
// already has what came before.
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
	ctx, cancel := context.WithTimeout(s.server.life, keptTimeout)
	defer cancel()
	backoff := newBackoff()
	kept, err := s.server.rooms.Kept(ctx, r.in.Room, now.Settings.History)
	for err != nil && backoff.Wait(ctx) == nil {
		kept, err = s.server.rooms.Kept(ctx, r.in.Room, now.Settings.History)
	}
	for _, m := range kept.Missed(now, r.in.Condition(), s.viewer(r.in.Room), most) {
		one := protocol.Said{Epoch: m.Epoch, Version: m.Version, User: m.User, Text: m.Text, Data: protocol.JSON(m.Data), To: m.To}
		if m.Epoch == now.Epoch {
			one.Epoch = ""
		}
		said = append(said, one)
	}
	return said
}

func (r *request) users() {
	now, err := r.session.readWhole(r.in.Room)
	if err == nil {
		err = r.mayWatch(now)
	}
	if err != nil {
		r.refuse(err)
		return
	}
	r.replyList(now, nil, false)
}

// watch begins anew if a member loses its place meanwhile: then it is brought back, or hears why not.
func (r *request) watch() {
	for began := time.Now(); r.tryWatch(time.Since(began) < seatWait); {
	}
}

// tryWatch reads the room first: while the session is a member and its place is in doubt, that takes
// the recovery which beginSubscribed would cancel.
func (r *request) tryWatch(patient bool) (again bool) {
	s, id := r.session, r.in.Room
	if s.isMember(id) {
		if _, err := s.readWhole(id); err != nil {
			r.refuse(err)
			return false
		}
	}
	p, err := r.beginSubscribed()
	if err != nil {
		r.refuse(err)
		return false
	}
	defer p.end()
	now, err := s.server.rooms.Read(s.server.life, id)
	if err == nil && p.status().IsMember() && !isListed(now, room.AnySeat, s.user) {
		if patient {
			return true
		}
		err = fmt.Errorf("%w: the session's place was lost again", room.ErrUnavailable)
	}
	if err == nil {
		err = r.mayWatch(now)
	}
	if err != nil {
		p.endEvents(false)
		r.refuse(err)
		return false
	}
	p.beginWatch(now)
	r.said = r.missed(now)
	r.replyList(now, nil, false)
	return false
}

// unwatch is no error for a session that does not watch. A member's events go on. A session that is nothing in the room, and may
// not see it, is told nothing of it.
func (r *request) unwatch() {
	s := r.session
	p, err := s.begin(r.in.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	defer p.end()
	now, err := s.server.rooms.Read(s.server.life, r.in.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	if !p.unwatch() && r.mayWatch(now) != nil {
		now = room.Snapshot{}
	}
	p.endEvents(false)
	r.replyCount(now)
}

// replyCount queues a reply about the room at a version.
func (r *request) replyCount(now room.Snapshot) {
	r.push(now.Epoch, now.Version, r.countReply(now))
}

// push queues a reply in its place among the room's events.
func (r *request) push(epoch string, version uint64, reply *protocol.Reply) {
	frame := frames.Reply(reply)
	queue, deferred := r.waiting()
	if queue != nil {
		queue.Reply(epoch, version, frame, deferred)
	} else {
		r.session.out.Push(frame)
	}
}

// replyList queues a reply that lists the room, unless it is to be brief. Of the room's events only those behind it follow.
func (r *request) replyList(now room.Snapshot, seat *int, brief bool) {
	reply := r.countReply(now)
	if reply.Seat = seat; !brief {
		reply.Settings, reply.Data, reply.List = frames.Settings(now.Settings), protocol.JSON(now.Data), frames.List(now)
		reply.Host = now.Host()
		reply.Private = frames.Private(now, r.session.viewer(r.in.Room))
		reply.Timers = protocol.TimersOf(now.Timers(), r.session.server.now())
	}
	reply.Said = r.said
	frame := frames.Reply(reply)
	if queue := r.queue(); queue != nil {
		queue.ReplyList(now.Epoch, now.Version, frame)
	} else {
		r.session.out.Push(frame)
	}
}

// countReply returns a reply with the room's version and number of members.
func (r *request) countReply(now room.Snapshot) *protocol.Reply {
	return &protocol.Reply{ID: &r.in.ID, Room: r.in.Room, Epoch: now.Epoch, Version: now.Version, Count: now.Count()}
}
