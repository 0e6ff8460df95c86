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
	w := coordinator.Wanted{Labels: r.in.Labels, Seats: 1, Prefix: identity.Prefix(newRoomPrefix), By: s.user, Key: r.in.Key, Allow: identity.Only()}
	if r.in.Settings != nil {
		w.Settings = *r.in.Settings
	}
	err := room.Forbid("only admins begin rooms that are kept or closed")
	if !w.Settings.Keep && !w.Settings.Closed || s.isAdmin() {
		err = s.server.rooms.Match(s.server.life, w, r.tryRoom)
	}
	if err != nil { // the request has named no room
		r.finish()
		r.in.Room, r.held = "", nil
		r.refuse(err)
	}
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
