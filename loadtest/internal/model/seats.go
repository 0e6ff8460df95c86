package model

import "slices"

// MaxSeats is how many seats a room without a capacity has.
const MaxSeats = 1 << 16

// Seats is who sits where. Read its maps, and change them by Put and Drop.
type Seats struct {
	Of map[string]int // user to seat
	At map[int]string // seat to the user who was there first

	displaced map[string]int   // by the present commit: who sat on a seat that another one has got, and the seat
	given     map[int]struct{} // by the present commit: seats that members have left for others
}

// NewSeats returns the seats of an empty room.
func NewSeats() Seats {
	return Seats{make(map[string]int), make(map[int]string), make(map[string]int), make(map[int]struct{})}
}

// Put seats a user who is not there.
func (s *Seats) Put(user string, seat int) {
	s.Of[user] = seat
	if _, taken := s.At[seat]; !taken {
		s.At[seat] = user
	}
}

// Drop removes a user, and returns the seat of one who was there.
func (s *Seats) Drop(user string) (seat int, there bool) {
	if seat, there = s.Of[user]; there {
		delete(s.Of, user)
		if s.At[seat] == user {
			delete(s.At, seat)
		}
	}
	return seat, there
}

// Reseat gives a member another seat. Who has that has to get another one by the same commit; see Settle. It reports
// whether the seat was another member's: members change places, and nobody gets a seat that was free.
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

// Settle ends a commit. It returns who sits all the same on a seat that another one has got, by name.
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

// Settings are those of a room that limit who comes in. A Capacity of 0 sets no limit.
type Settings struct {
	Capacity int
	Closed   bool
}

// Beyond reports whether there is no such seat.
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
