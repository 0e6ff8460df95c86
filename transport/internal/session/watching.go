package session

import (
	"fmt"
	"time"

	"roomd/room"
	"roomd/transport/protocol"
)

// watching is whether a session watches a room, and what ends that.
type watching struct {
	on    bool
	since room.Position  // what the client was told when it began to watch
	rule  room.WatchRule // also of an admin, whom it does not bind
}

func users(r *request) {
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
func watch(r *request) {
	for began := time.Now(); r.tryWatch(time.Since(began) < SeatWait); {
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
	now, err := s.shared.Rooms.Read(s.shared.Life, id)
	if err == nil && p.status().IsMember() && !isListed(now, room.AnySeat, s.User) {
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

// unwatch is no error for a session that does not watch. A member's events go on. A session that is nothing in the
// room, and may not see it, is told nothing of it.
func unwatch(r *request) {
	s := r.session
	p, err := s.begin(r.in.Room)
	if err != nil {
		r.refuse(err)
		return
	}
	defer p.end()
	now, err := s.shared.Rooms.Read(s.shared.Life, r.in.Room)
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

// beginWatch records that the client watches the room from what it is told on.
func (p *presence) beginWatch(now room.Snapshot) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.watch = watching{true, room.Position{Epoch: now.Epoch, Version: now.Version}, now.WatchRule(p.session.User)}
}

// unwatch records that the client does not watch the room any more. It reports whether it did.
func (p *presence) unwatch() (watched bool) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	watched, p.watch.on = p.watch.on, false
	return watched
}

// heed remembers what an event says of who may watch. It reports whether the event may end the watch.
func (w *watching) heed(e *room.Event, user string) bool {
	if !w.on || e.Epoch == w.since.Epoch && e.Version <= w.since.Version {
		return false
	}
	w.rule = w.rule.After(e, user)
	return true
}

// endWatchLocked ends the watch of a session that is no member, if the room or the token do not allow it. It returns
// what is to be told to the client, or nil.
func (p *presence) endWatchLocked() *protocol.Event {
	s := p.session
	why := p.watch.rule.Check(p.room, s.User, s.shared.Now())
	if s.access.isAdmin() {
		why = nil
	}
	if !s.access.allows(protocol.ActionWatch, p.room) {
		why = room.ErrForbidden
	}
	if p.membership.Status.IsMember() || why == nil || !p.watch.on {
		return nil
	}
	p.watch.on = false
	return &protocol.Event{Event: protocol.EventUnwatched, Room: p.room, Reason: ErrorOf(why).Code}
}

// endWatchAfterLeave ends the watch of a session that has left, and may watch only as a member. It does not hear
// of its own leave any more.
func (p *presence) endWatchAfterLeave(now room.Snapshot) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	var own *room.Event
	for _, e := range p.deferred {
		if e.Epoch == now.Epoch && e.Version >= now.Version && own == nil {
			own = e
		}
	}
	p.watch.rule = now.WatchRule(p.session.User)
	p.tellLocked(own, false, p.endWatchLocked())
}

// judgeRooms ends the watches that a newer token does not allow, and has the client see what it does allow.
func (s *Session) judgeRooms() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.presences {
		if p.queue != nil {
			p.queue.SetViewer(s.viewer(p.room))
		}
		p.tellLocked(nil, false, p.endWatchLocked())
		p.settleLocked()
	}
}

// mayWatch returns an error unless the client may see a room. A session that is a member may. Others need a token that
// allows it, and unless they are admins, settings and bans that do.
func (r *request) mayWatch(now room.Snapshot) error {
	s := r.session
	if s.isMember(r.in.Room) {
		return nil
	}
	identity := s.access.identity()
	return identity.MayWatch(now, r.in.Room, s.User, s.shared.Now())
}
