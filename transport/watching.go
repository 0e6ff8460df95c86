package transport

import (
	"roomd/room"
	"roomd/transport/protocol"
)

// watch is whether a session watches a room, and what ends that.
type watch struct {
	on      bool
	since   room.Position // what the client was told when it began to watch
	private bool          // the settings let only members watch
}

// beginWatch records that the client watches the room from what it is told on.
func (p *presence) beginWatch(now room.Snapshot) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.watch = watch{true, room.Position{Epoch: now.Epoch, Version: now.Version}, now.Settings.Watch != room.WatchAll}
}

// unwatch records that the client does not watch the room any more.
func (p *presence) unwatch() {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.watch.on = false
}

// heed remembers whether only members may watch. It reports whether the event may end the watch.
func (w *watch) heed(e *room.Event) bool {
	if !w.on || e.Epoch == w.since.Epoch && e.Version <= w.since.Version {
		return false
	}
	if e.Snapshot != nil {
		w.private = e.Snapshot.Settings.Watch != room.WatchAll
	}
	for i := range e.Changes {
		if c := &e.Changes[i]; c.Type == room.KindSettings && c.Detail != nil && c.Settings != nil {
			w.private = c.Settings.Watch != room.WatchAll
		}
	}
	return true
}

// endWatchLocked ends the watch of a session that is no member, if the settings or the token do not allow
// it, or, unless the user is an admin, for the reason why, or that of the event by; both may be nil. It returns what is to be told
// to the client, or nil.
func (p *presence) endWatchLocked(why error, by *room.Event) *protocol.Event {
	if why == nil && by != nil {
		why = by.EndsWatch(p.session.user, p.session.server.now())
	}
	if why == nil && p.watch.private {
		why = room.ErrForbidden
	}
	if why != nil && p.session.isAdmin() {
		why = nil
	}
	if !p.session.allows(protocol.ActionWatch, p.room) {
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
	p.tellLocked(own, false, p.endWatchLocked(room.ErrForbidden, own))
}

// judgeRooms ends the watches that a newer token does not allow, and has the client see what it does allow.
func (s *session) judgeRooms() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.presences {
		if p.queue != nil {
			p.queue.SetViewer(s.viewer(p.room))
		}
		p.tellLocked(nil, false, p.endWatchLocked(nil, nil))
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
	identity := s.identity()
	return identity.MayWatch(now, r.in.Room, s.user, s.server.now())
}
