package transport

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

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
	given := r.in.Settings
	if given != nil {
		w.Settings = *given
	}
	if s.isAdmin() {
		return nil
	} else if w.Settings.Keep || w.Settings.Closed {
		return room.Forbid("only admins begin rooms that are kept or closed")
	} else if s.server.opts.MatchSettings == nil {
		return nil
	}
	allowed := s.server.opts.MatchSettings.of(w.Labels)
	wanted := w.Settings
	wanted.Labels = ""
	switch {
	case len(allowed) == 0:
		w.NoNew = room.Forbid("there is no room with these labels and free seats, and this server lets no player begin one")
	case given == nil:
		w.Settings = allowed[0]
	case !slices.Contains(allowed, wanted):
		text, err := json.Marshal(allowed)
		if err != nil {
			return fmt.Errorf("%w: %w", room.ErrInvalid, err)
		}
		return &room.InvalidError{Field: "settings", Problem: "must be left out, or one of " + string(text)}
	}
	return nil
}

// MatchSettings are the settings with which a player may begin a room by a match: those whose labels are among those of the match,
// and the rest is then as it is there. A match that gives no settings takes the first. Where none has such labels, players begin no
// room by a match. Nil lets players choose, except keep and closed, which only admins give.
type MatchSettings []room.Settings

// Check returns a [room.InvalidError] if no player can begin a room with one of them.
func (m MatchSettings) Check() error {
	for _, s := range m {
		if _, err := room.Check(room.Configure{Settings: s}, room.Rules{}); err != nil {
			return err
		}
		if s.Keep || s.Closed || s.Default {
			return &room.InvalidError{Field: "settings", Problem: "cannot have keep, closed or default: players begin no such rooms"}
		}
	}
	return nil
}

// of returns those for a match, without labels.
func (m MatchSettings) of(labels room.Labels) (allowed []room.Settings) {
	for _, s := range m {
		if labels.Include(s.Labels) {
			s.Labels = ""
			allowed = append(allowed, s)
		}
	}
	return allowed
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
