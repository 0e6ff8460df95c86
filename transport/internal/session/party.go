package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/auth"
)

const (
	// maxPartyTries is how often a match looks again at a party whose members leave or agree to another match meanwhile.
	maxPartyTries = 5

	// partyTime is how long a repeated match finds the table to which the user was moved.
	partyTime = time.Minute
)

// matchParty moves the user and all users whom the request names to a table, if these have agreed, and the user's session
// joins that. Otherwise it records in the party's room that the user agrees, and replies with that room.
func (r *request) matchParty(w coordinator.Wanted, identity auth.Identity) error {
	s, party := r.session, r.in.Party
	if err := room.CheckID(party); err != nil {
		return &room.InvalidError{Field: "party", Problem: err.(*room.InvalidError).Problem}
	}
	agree := room.Agree{User: s.User, Session: s.ID, With: usersOf(r),
		Agreement: room.Agreement{Labels: w.Labels, Rooms: identity.Rooms}}
	w.Seats = len(agree.With)
	err := room.ErrNotMember
	for tries := 0; errors.Is(err, room.ErrNotMember) && tries < maxPartyTries; tries++ {
		r.turnTo(party)
		now, refused := s.doAsMember(party, agree)
		table, moved := s.movedTo(now.Snapshot, w.Labels)
		switch {
		case errors.Is(refused, room.ErrNotMember) && moved: // by an earlier sending, or another member's match
			if refused = identity.May(auth.Enter, table, false); refused == nil {
				return r.enterTable(table)
			}
			return refused
		case refused != nil:
			return refused
		case w.Seats == 0 || now.Seat > 0: // some have not agreed
			replyParty(r, now.Snapshot)
			return nil
		}
		if table, err = r.moveParty(w, agree.With); err == nil {
			if err = r.enterTable(table); err != nil {
				err = fmt.Errorf("%w: the party was moved: %v", room.ErrUnknown, err)
			}
		}
	}
	if errors.Is(err, room.ErrNotMember) {
		err = fmt.Errorf("%w: %v", room.ErrBusy, err)
	}
	return err
}

// usersOf returns the users whom the request names, and the user; nil if it names none.
func usersOf(r *request) []string {
	if len(r.in.Users) == 0 || slices.ContainsFunc(r.in.Users, func(name string) bool {
		user, _ := room.ParseUser(name)
		return user == r.session.User
	}) {
		return r.in.Users
	}
	return append(slices.Clip(r.in.Users), r.session.User)
}

// moveParty moves users, who agreed, from the party's room to a table.
func (r *request) moveParty(w coordinator.Wanted, users []string) (table string, err error) {
	s := r.session
	err = s.shared.Rooms.Match(s.shared.Life, w, func(ctx context.Context, id string, begin *room.Settings) (
		joined room.Result, err error) {
		table = id
		joined, err = s.shared.MoveParty(ctx, r.in.Party, id, *begin, s.User, users)
		if err == nil && joined.Version == 1 {
			s.throttle.user.newRooms.take(s.shared.Limits.newRooms(), s.shared.Clock())
		}
		return joined, err
	})
	return table, err
}

// movedTo returns the room to which a match for these labels has moved the user of late, from a room in that state.
func (s *Session) movedTo(from room.Snapshot, labels room.Labels) (id string, moved bool) {
	gone, _ := from.Gone(s.User)
	return gone.Target, gone.Labels == labels && s.shared.Now()-gone.At < partyTime.Milliseconds()
}

// enterTable joins the room to which the user was moved. The limit of rooms does not apply: the session leaves another.
func (r *request) enterTable(id string) error {
	s := r.session
	s.mu.Lock()
	s.followLocked(id)
	s.mu.Unlock()
	_, err := r.tryRoom(s.shared.Life, id, nil)
	return err
}

// replyParty replies like a join of the party's room.
func replyParty(r *request, now room.Snapshot) {
	for _, o := range now.Users() {
		if o.User == r.session.User {
			r.replyList(now, &o.Seat, r.in.Brief)
		}
	}
}
