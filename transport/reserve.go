package transport

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/internal/session"
)

// reservation has the disconnect timers of users whose seats are reserved for one session id, which no client has.
type reservation struct {
	disconnectTimers *disconnectTimers
	session          string
	members          []*disconnectTimer
}

// reserve registers disconnect timers, not started yet, for users whose seats are about to be reserved. From now on
// answersFor knows the session of the reservation. After stop it fails with room.ErrClosed.
func (g *disconnectTimers) reserve(id string, users []string) (*reservation, error) {
	r := &reservation{disconnectTimers: g, session: uuid.NewString()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		return r, room.ErrClosed
	}
	for _, user := range users[:min(len(users), room.MaxGroup)] { // the coordinator refuses more
		name, err := room.ParseUser(user)
		if err != nil {
			continue // the coordinator refuses such a user
		}
		one := &disconnectTimer{user: name, session: r.session, rooms: []string{id}, reason: room.ReasonTimeout}
		g.running[one] = struct{}{}
		r.members = append(r.members, one)
	}
	return r, nil
}

// minReservation is how long a seat is reserved without a grace: sessions that follow a move need time to arrive.
const minReservation = session.SeatWait

// settle starts the timers, or removes them if the action's result says that no seat was reserved, or that the settings
// have a grace. After an undone move it starts them: seats that were reserved before may now be under this session.
func (r *reservation) settle(result room.Result, err error) {
	g := r.disconnectTimers
	length := g.length
	if length < 0 {
		length = minReservation
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range r.members {
		switch {
		case g.running == nil: // the server stops: the seats go with the lease of the node
		case err == nil && result.Settings.Grace != 0:
			delete(g.running, one)
		case err == nil, errors.Is(err, room.ErrUnknown), errors.Is(err, coordinator.ErrUndone):
			g.armLocked(one, length)
		default:
			delete(g.running, one)
		}
	}
}

// Reserve seats users who have not come yet: all of them, or none. Until a session joins, each user is shown as away,
// and keeps the seat for the grace of the settings or else Options.Grace, but 5 s if that is none. It fails as
// [Rooms].Do, and after Shutdown with room.ErrClosed.
func (s *Server) Reserve(ctx context.Context, id string, users ...string) (room.Result, error) {
	return s.seatParty(ctx, id, nil, users)
}

// seatParty is Reserve with the settings for a new room; nil to use the default ones.
func (s *Server) seatParty(ctx context.Context, id string, begin *room.Settings, users []string) (room.Result, error) {
	return s.holding(id, users, func(session string) (room.Result, error) {
		return s.rooms.Do(ctx, id, room.Reserve{Session: session, Users: users, Begin: begin})
	})
}

// Move moves users to another room: all of them, or none. Their sessions join that room by themselves. Without a
// session, a user keeps the seat as after Reserve. It fails as [Rooms].Move, and after Shutdown with room.ErrClosed.
func (s *Server) Move(ctx context.Context, from, to string, users ...string) (left, joined room.Result, err error) {
	joined, err = s.holding(to, users, func(session string) (joined room.Result, err error) {
		left, joined, err = s.rooms.Move(ctx, from, to, session, users...)
		return joined, err
	})
	return left, joined, err
}

// moveParty is Move by [Rooms].MoveParty.
func (s *Server) moveParty(ctx context.Context, from, to string, begin room.Settings, mover string, users []string) (
	room.Result, error) {
	return s.holding(to, users, func(session string) (joined room.Result, err error) {
		_, joined, err = s.rooms.MoveParty(ctx, from, to, session, begin, mover, users...)
		return joined, err
	})
}

// holding calls act, which reserves seats in a room for a session, and counts the grace of the users who get one.
func (s *Server) holding(id string, users []string, act func(session string) (room.Result, error)) (
	room.Result, error) {
	held, err := s.disconnectTimers.reserve(id, users)
	if err != nil {
		return room.Result{}, err
	}
	result, err := act(held.session)
	held.settle(result, err)
	return result, err
}

// Match is [Server.Reserve] in the room that Rooms.Match finds. It sets w.Seats to the number of users, and, without
// w.Allow, an empty w.Prefix to m-. It fails as Rooms.Match.
func (s *Server) Match(
	ctx context.Context, w coordinator.Wanted, users ...string,
) (id string, result room.Result, err error) {
	w.Seats = len(users)
	if w.Allow == nil {
		w.Prefix = cmp.Or(w.Prefix, session.NewRoomPrefix)
	}
	err = s.rooms.Match(ctx, w, func(ctx context.Context, found string, begin *room.Settings) (room.Result, error) {
		id = found
		result, err = s.seatParty(ctx, found, begin, users)
		return result, err
	})
	return id, result, err
}
