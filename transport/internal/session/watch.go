package session

import (
	"fmt"
	"time"

	"roomd/room"
)

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

// watch begins a watch, and replies. If a member loses its place meanwhile, it tries again for SeatWait.
func watch(r *request) {
	for began := time.Now(); r.tryWatch(time.Since(began) < SeatWait); {
	}
}

// tryWatch tries once to watch, and replies. If a member's place was lost meanwhile, and patient is set, it does not
// reply, but reports true. A member first waits, by readWhole, for a recovery, which controlSubscribed would cancel.
func (r *request) tryWatch(patient bool) (again bool) {
	s, id := r.session, r.in.Room
	if s.isMember(id) {
		if _, err := s.readWhole(id); err != nil {
			r.refuse(err)
			return false
		}
	}
	p, err := r.controlSubscribed()
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
		p.endEvents()
		r.refuse(err)
		return false
	}
	p.beginWatch(now)
	r.said = r.missed(now)
	r.replyList(now, nil, false)
	return false
}

// unwatch ends the watch, if any; a member's events go on. Without a watch, the reply hides a forbidden room.
func unwatch(r *request) {
	s := r.session
	p, err := s.control(r.in.Room)
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
	p.endEvents()
	r.replyCount(now)
}

func (p *presence) beginWatch(now room.Snapshot) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.watch = watching{true, room.Position{Epoch: now.Epoch, Version: now.Version}, now.WatchRule(p.session.User)}
}

func (p *presence) unwatch() (watched bool) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	watched, p.watch.on = p.watch.on, false
	return watched
}

// endWatchAfterLeave ends the watch of a session that left, unless it may watch the room. The client then does not get
// the event of that leave.
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

// judgeRooms ends the watches that a newer token does not allow, and updates the viewers of the others.
func (s *Session) judgeRooms() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.presences {
		p.queue.SetViewer(s.viewer(p.room))
		p.tellLocked(nil, false, p.endWatchLocked())
		p.settleLocked()
	}
}

// mayWatch returns an error unless the client may see a room. A member may. Others need a token that allows it, and,
// unless they are admins, settings and bans that do.
func (r *request) mayWatch(now room.Snapshot) error {
	s := r.session
	if s.isMember(r.in.Room) {
		return nil
	}
	identity := s.access.identity()
	return identity.MayWatch(now, r.in.Room, s.User, s.shared.Now())
}
