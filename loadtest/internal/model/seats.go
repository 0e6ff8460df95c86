package model

import "slices"

// MaxSeats is the number of seats of a room without a capacity.
const MaxSeats = 1 << 16

// Seats maps members and seats. Only Put, Drop and Reseat change it.
type Seats struct {
	Of map[string]int // user to seat
	At map[int]string // seat to its first user

	displaced map[string]int   // in this commit: users whose seat another member got, with that seat
	given     map[int]struct{} // in this commit: seats that members left for other seats
}

// NewSeats returns the seats of an empty room.
func NewSeats() Seats {
	return Seats{make(map[string]int), make(map[int]string), make(map[string]int), make(map[int]struct{})}
}

// Put seats a new member.
func (s *Seats) Put(user string, seat int) {
	s.Of[user] = seat
	if _, taken := s.At[seat]; !taken {
		s.At[seat] = user
	}
}

// Drop removes a member, and returns the seat.
func (s *Seats) Drop(user string) (seat int, there bool) {
	if seat, there = s.Of[user]; there {
		delete(s.Of, user)
		if s.At[seat] == user {
			delete(s.At, seat)
		}
	}
	return seat, there
}

// Reseat gives a member another seat. The member on that seat has to get another one in the same commit; see
// Settle. Reseat reports whether the seat was another member's, as it must be: members exchange seats, and
// nobody gets a free one.
func (s *Seats) Reseat(user string, seat int) (fits bool) {
	if was, there := s.Drop(user); there {
		s.given[was] = struct{}{}
	}
	delete(s.displaced, user)
	if other := s.At[seat]; other != "" {
		s.displaced[other], fits = seat, true
	}
	if _, left := s.given[seat]; left {
		fits = true
	}
	s.Of[user], s.At[seat] = seat, user
	return fits
}

// Settle ends a commit. It returns the sorted names of members who are still on a seat that another member got.
func (s *Seats) Settle() (clashes []string) {
	for other, seat := range s.displaced {
		if is, there := s.Of[other]; there && is == seat {
			clashes = append(clashes, other)
		}
	}
	clear(s.displaced)
	clear(s.given)
	slices.Sort(clashes)
	return clashes
}

// Settings limit the members of a room. A Capacity of 0 sets no limit.
type Settings struct {
	Capacity int
	Closed   bool
}

// Beyond reports whether the room has no such seat.
func (s Settings) Beyond(seat int) bool {
	return seat < 0 || seat >= MaxSeats || s.Capacity > 0 && seat >= s.Capacity
}

// Over returns how many members are too many.
func (s Settings) Over(members int) int {
	limit := s.Capacity
	if limit == 0 {
		limit = MaxSeats
	}
	return members - limit
}
