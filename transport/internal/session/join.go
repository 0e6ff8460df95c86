package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/protocol"
)

func join(r *request) {
	s := r.session
	action := room.Join{User: s.User, Session: s.ID, Expect: r.in.Condition()}
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

// enter runs a join, replies with the list, and returns the result. If it fails, enter calls refuse instead.
func (r *request) enter(action room.Join, refuse func(room.Result, error)) (result room.Result) {
	s := r.session
	p, err := r.beginSubscribed()
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
		// Events may already wait for a client that has some of the room: the list replaces them.
		r.said = r.missed(result.Snapshot)
		r.replyList(result.Snapshot, &result.Seat, r.in.Brief && !r.shown)
		return result
	}
	p.endEvents(false) // before the reply, which would bring them to a session that may not see the room
	refuse(result, err)
	return result
}

// errReplaced refuses a request that was sent before the close frame, but run after a newer session had taken over
// this one's last room. A join would seat a client that is told not to connect again.
var errReplaced = protocol.NewError(protocol.CodeDuplicateUser,
	"a newer session of the user has taken over the last room of this one; nothing was written")

// beginSubscribed is begin for a join or a watch. It first subscribes to the room, so that no event is missed.
func (r *request) beginSubscribed() (*presence, error) {
	s, id := r.session, r.in.Room
	if err := s.admit(id); err != nil {
		return nil, err
	}
	p, err := s.begin(id)
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
	limit := s.shared.limits.Load().newRooms
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

// missed returns the earlier messages for the reply to a join or a watch: as many as the request asks for or, if it
// expects a version, those after that version. A session with the room's events already has them.
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

// NewRoomPrefix starts the ids of rooms that a match creates, unless a token demands another prefix.
const NewRoomPrefix = "m-"

func match(r *request) {
	s, identity := r.session, r.session.access.identity()
	w := coordinator.Wanted{
		Labels: r.in.Labels, Seats: 1, Prefix: identity.Prefix(NewRoomPrefix, coordinator.NewIDLength),
		By: s.User, Key: r.in.Key, Allow: identity.Only(),
	}
	err := s.admit(r.in.Room) // before it takes a seat
	if err == nil {
		err = r.mayBegin(&w)
	}
	if err == nil {
		err = s.shared.Rooms.Match(s.shared.Life, w, r.tryRoom)
	}
	if err != nil { // the request named no room
		r.finish()
		r.in.Room = ""
		r.refuse(err)
	}
}

// mayBegin sets the settings of a new room in w, or w.NoNew if the request may create none.
func (r *request) mayBegin(w *coordinator.Wanted) error {
	s := r.session
	if wait := s.throttle.user.newRooms.wait(s.shared.limits.Load().newRooms, s.shared.Clock()); wait > 0 {
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

func (r *request) tryRoom(_ context.Context, id string, begin *room.Settings) (result room.Result, err error) {
	r.finish() // releases the room tried before
	r.in.Room = id
	r.begin()
	action := room.Join{User: r.session.User, Session: r.session.ID, Begin: begin}
	result = r.enter(action, func(_ room.Result, why error) { err = why })
	return result, err
}

// MatchSettings are the settings with which players may create a room by a match. A match may give one whose labels
// include the match's, with no other change; without settings it gets the first such one. If there is none, players
// create no room by a match. Nil lets players choose, except keep and closed, which are for admins.
type MatchSettings []room.Settings

// Check returns a [room.InvalidError] if players can create no room with one of the settings.
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

// of returns the settings for a match, without labels.
func (m MatchSettings) of(labels room.Labels) (allowed []room.Settings) {
	for _, s := range m {
		if labels.Include(s.Labels) {
			s.Labels = ""
			allowed = append(allowed, s)
		}
	}
	return allowed
}
