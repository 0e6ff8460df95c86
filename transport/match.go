package transport

import (
	"cmp"
	"context"

	"roomd/room"
	"roomd/room/coordinator"
)

// newRoomPrefix begins the ids of rooms that a match begins, where a token asks for no other.
const newRoomPrefix = "m-"

// match finds a room, and joins it.
func (r *request) match() {
	s, identity := r.session, r.session.identity()
	w := coordinator.Wanted{
		Labels: r.in.Labels, Seats: 1, Prefix: identity.Prefix(newRoomPrefix, coordinator.NewIDLength), By: s.user, Key: r.in.Key, Allow: identity.Only(),
	}
	err := s.admit(r.in.Room) // before others see a seat as taken
	if err == nil {
		err = r.mayBegin(&w)
	}
	if err == nil {
		err = s.server.rooms.Match(s.server.life, w, r.tryRoom)
	}
	if err != nil { // the request has named no room
		r.finish()
		r.in.Room, r.held = "", nil
		r.refuse(err)
	}
}

// mayBegin sets with which settings the request may begin a room, or why it may begin none.
func (r *request) mayBegin(w *coordinator.Wanted) error {
	s := r.session
	if wait := s.throttle.newRoomWait(s.server.limits.Load().newRooms); wait > 0 {
		w.NoNew = s.throttle.tooManyRooms(wait)
	}
	if r.in.Settings != nil {
		w.Settings = *r.in.Settings
	}
	if (w.Settings.Keep || w.Settings.Closed) && !s.isAdmin() {
		return room.Forbid("only admins begin rooms that are kept or closed")
	}
	return nil
}

// Match seats users who have not come yet together in a room that Rooms.Match finds, or in none, as [Server.Reserve] does.
func (s *Server) Match(ctx context.Context, w coordinator.Wanted, users ...string) (id string, result room.Result, err error) {
	w.Seats = len(users)
	if w.Allow == nil {
		w.Prefix = cmp.Or(w.Prefix, newRoomPrefix)
	}
	err = s.rooms.Match(ctx, w, func(ctx context.Context, found string, begin *room.Settings) (room.Result, error) {
		id = found
		result, err = s.seatParty(ctx, found, begin, users)
		return result, err
	})
	return id, result, err
}

// tryRoom joins a room that was found.
func (r *request) tryRoom(_ context.Context, id string, begin *room.Settings) (result room.Result, err error) {
	r.finish() // with the room that was tried before
	r.in.Room = id
	r.begin()
	action := r.joinAction()
	action.Begin = begin
	result = r.enter(action, func(_ room.Result, why error) { err = why })
	return result, err
}
