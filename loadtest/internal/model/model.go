// Package model says what a room allows: who may come in, on which seat, and which changes of a member fit. The
// checker of histories and the audit of journals both judge by it. Each knows a part of the room in its own way, so
// the model has no room of its own: it answers about the seats and the settings that a checker believes in.
//
// It imports nothing of ours. A mistake in the server's rules must not hide in the proof.
package model

import "slices"

// MaxSeats is how many seats a room without a capacity has.
const MaxSeats = 1 << 16

// Rule is a rule of rooms that a change can break.
type Rule int

// The rules.
const (
	AlreadyIn  Rule = iota // a join of who is in the room
	NotIn                  // a change of who is not
	OtherSeat              // a change of a member that names another seat
	SeatTaken              // two members on one seat
	NoSuchSeat             // a seat beyond the capacity
	Closed                 // a join into a closed room
)

// Breach is a rule that a change breaks, and what the seats say instead.
type Breach struct {
	Rule  Rule
	Seat  int    // of the user so far: of AlreadyIn and OtherSeat
	Other string // who has the seat: of SeatTaken
}

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

// Join returns what is wrong about a user who comes in on a seat. It allocates nothing if all is well.
func (s *Seats) Join(user string, seat int) (broken []Breach) {
	if was, there := s.Of[user]; there {
		broken = append(broken, Breach{Rule: AlreadyIn, Seat: was})
	}
	if other, taken := s.At[seat]; taken && other != user {
		broken = append(broken, Breach{Rule: SeatTaken, Other: other})
	}
	return broken
}

// Change returns what is wrong about a change of a member on a seat, false if nothing is.
func (s *Seats) Change(user string, seat int) (Breach, bool) {
	was, there := s.Of[user]
	switch {
	case !there:
		return Breach{Rule: NotIn}, true
	case was != seat:
		return Breach{Rule: OtherSeat, Seat: was}, true
	}
	return Breach{}, false
}

// Settings are those of a room that limit who comes in. A Capacity of 0 sets no limit.
type Settings struct {
	Capacity int
	Closed   bool
}

// Join returns what is wrong about a join on a seat. It allocates nothing if all is well.
func (s Settings) Join(seat int) (broken []Breach) {
	if s.Closed {
		broken = append(broken, Breach{Rule: Closed})
	}
	if s.Beyond(seat) {
		broken = append(broken, Breach{Rule: NoSuchSeat})
	}
	return broken
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

// Banned reports whether somebody who joined at that time came in spite of a ban. Both times are in ms since 1970;
// a ban until 0 is none.
func Banned(joined, until int64) bool { return joined < until }
