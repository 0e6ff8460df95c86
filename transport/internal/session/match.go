package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"roomd/room"
	"roomd/room/coordinator"
)

// NewRoomPrefix starts the ids of rooms that a match creates, unless a token demands another prefix.
const NewRoomPrefix = "m-"

func match(r *request) {
	s, identity := r.session, r.session.access.identity()
	w := coordinator.Wanted{
		Labels: r.in.Labels, Seats: 1, Prefix: identity.Prefix(NewRoomPrefix, coordinator.NewIDLength),
		By: s.User, Key: r.in.Key, Allow: identity.Only(),
	}
	var err error
	if r.in.Party == "" {
		err = s.admit("") // before it takes a seat
	}
	if err == nil {
		err = r.mayBegin(&w)
	}
	if err == nil && r.in.Party != "" {
		err = r.matchParty(w, identity)
	} else if err == nil {
		err = s.shared.Rooms.Match(s.shared.Life, w, r.tryRoom)
	}
	if err != nil { // the request named no room
		r.release()
		r.in.Room = ""
		r.refuse(err)
	}
}

// mayBegin sets w.Settings, or w.NoNew if the user may create no room. It refuses settings that are not allowed.
func (r *request) mayBegin(w *coordinator.Wanted) error {
	s := r.session
	if wait := s.throttle.user.newRooms.wait(s.shared.Limits.newRooms(), s.shared.Clock()); wait > 0 {
		w.NoNew = s.throttle.tooManyRooms(wait)
	}
	given := r.in.Settings
	if given != nil {
		w.Settings = *given
	}
	if s.access.isAdmin() {
		return nil
	} else if w.Settings.Keep || w.Settings.Closed {
		return room.Forbid("only admins begin rooms that are kept or closed")
	} else if s.shared.MatchSettings == nil {
		return nil
	}
	allowed := s.shared.MatchSettings.of(w.Labels)
	wanted := w.Settings
	wanted.Labels = ""
	switch {
	case len(allowed) == 0:
		w.NoNew = room.Forbid(
			"there is no room with these labels and free seats, and this server lets no player begin one")
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

// turnTo makes id the room of the request, in place of the one before.
func (r *request) turnTo(id string) {
	r.release()
	r.in.Room = id
	r.hold()
}

func (r *request) tryRoom(_ context.Context, id string, begin *room.Settings) (result room.Result, err error) {
	r.turnTo(id)
	action := room.Join{User: r.session.User, Session: r.session.ID, Begin: begin}
	result = r.enter(action, func(_ room.Result, why error) { err = why })
	return result, err
}

// MatchSettings are the settings that players may give a room created by a match: see transport.MatchSettings.
type MatchSettings []room.Settings

// Check returns a [room.InvalidError] if players cannot create a room with one of the settings.
func (m MatchSettings) Check() error {
	for _, s := range m {
		if _, err := room.Check(room.Configure{Settings: s}, room.Rules{}); err != nil {
			return err
		}
		if s.Keep || s.Closed || s.Default {
			return &room.InvalidError{Field: "settings",
				Problem: "cannot have keep, closed or default: players begin no such rooms"}
		}
	}
	return nil
}

// of returns the settings that a match with these labels may use, without their own labels.
func (m MatchSettings) of(labels room.Labels) (allowed []room.Settings) {
	for _, s := range m {
		if labels.Include(s.Labels) {
			s.Labels = ""
			allowed = append(allowed, s)
		}
	}
	return allowed
}
