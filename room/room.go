package room

import (
	"fmt"
	"slices"
)

// MaxSeats is how many members a room without a capacity can have.
const MaxSeats = 1 << 16

// Rules are what the rooms of a coordinator allow.
type Rules struct {
	// Capacity is how many members a room may have. Zero means [MaxSeats].
	Capacity int
}

func (r Rules) seats() int {
	if r.Capacity == 0 {
		return MaxSeats
	}
	return r.Capacity
}

// Member is a user's place in a room, in the form in which Redis holds it.
type Member struct {
	Seat    int    `json:"seat"`    // counted from 0
	Session string `json:"session"` // the one that speaks for the user
	Node    string `json:"node"`    // the node of that session
	At      int64  `json:"at"`      // when it joined, in ms since 1970, by its node's clock
}

// Change is what a committed action did, as everyone may know it.
type Change struct {
	Type Kind   `json:"type"`
	User string `json:"user"`
	Seat int    `json:"seat"` // taken by a join, freed by a leave
}

// Replaced tells a session that a newer one speaks for its user now.
type Replaced struct {
	User    string `json:"user"`
	Session string `json:"session"` // the old one
}

// Occupant is a user on a seat.
type Occupant struct {
	User string
	Seat int
}

// Snapshot is a room at one version. Its slice is shared: do not change it.
type Snapshot struct {
	Epoch   string // empty for a room that nobody has ever joined
	Version uint64
	Users   []Occupant // by seat
}

// Room is the pure state of one room: no I/O, no clock, no locks. Its zero value
// is not usable; see [NewRoom].
type Room struct {
	ID      string
	Epoch   string
	Version uint64

	members map[string]Member
	seats   seatSet
	delta   Delta
}

// Delta is what the actions applied to a Room have changed in it.
type Delta struct {
	Touched  []string // users whose membership differs, each once, in order
	Changes  []Change
	Replaced []Replaced
}

// NewRoom returns a room with the given members, at the given epoch and version.
// It takes the map over.
func NewRoom(id, epoch string, version uint64, members map[string]Member) *Room {
	r := &Room{ID: id, Epoch: epoch, Version: version, members: members}
	for _, m := range members {
		r.seats.take(m.Seat)
	}
	return r
}

// Member returns the user's place, and whether there is one.
func (r *Room) Member(user string) (Member, bool) {
	m, ok := r.members[user]
	return m, ok
}

// Apply runs one action by the rules and returns the seat it was about. On an
// error ([ErrFull], [ErrSeatTaken], [ErrNotMember]) the room is as it was.
func (r *Room) Apply(a Action, rules Rules) (seat int, err error) {
	if a.kind == KindLeave {
		return r.leave(a)
	}
	return r.join(a, rules)
}

func (r *Room) join(a Action, rules Rules) (int, error) {
	if m, ok := r.members[a.user]; ok {
		if m.Session != a.session {
			r.delta.Replaced = append(r.delta.Replaced, Replaced{a.user, m.Session})
			m.Session, m.Node = a.session, a.node
			r.set(a.user, m)
		}
		return m.Seat, nil
	}
	if taken, all := len(r.members), rules.seats(); taken >= all {
		return 0, &refusal{ErrFull, fmt.Sprintf("room %s is full: %d of %d seats taken", r.ID, taken, all)}
	}
	seat := a.seat
	switch {
	case seat == anySeat:
		seat = r.seats.lowestFree()
	case r.seats.has(seat):
		return 0, &refusal{ErrSeatTaken, fmt.Sprintf("seat %d of room %s is taken", seat, r.ID)}
	}
	r.seats.take(seat)
	r.set(a.user, Member{Seat: seat, Session: a.session, Node: a.node, At: a.at})
	r.delta.Changes = append(r.delta.Changes, Change{KindJoin, a.user, seat})
	return seat, nil
}

func (r *Room) leave(a Action) (int, error) {
	m, ok := r.members[a.user]
	switch {
	case !ok:
		return 0, &refusal{ErrNotMember, fmt.Sprintf("%s is not in room %s", a.user, r.ID)}
	case m.Session != a.session:
		return 0, &refusal{ErrNotMember, fmt.Sprintf("%s is in room %s with another session", a.user, r.ID)}
	}
	delete(r.members, a.user)
	r.seats.free(m.Seat)
	r.touch(a.user)
	r.delta.Changes = append(r.delta.Changes, Change{KindLeave, a.user, m.Seat})
	return m.Seat, nil
}

func (r *Room) set(user string, m Member) {
	r.members[user] = m
	r.touch(user)
}

func (r *Room) touch(user string) {
	if !slices.Contains(r.delta.Touched, user) {
		r.delta.Touched = append(r.delta.Touched, user)
	}
}

// Delta returns what has changed since the room was made.
func (r *Room) Delta() Delta { return r.delta }

// Users returns who is in the room, by seat.
func (r *Room) Users() []Occupant {
	users := make([]Occupant, 0, len(r.members))
	for user, m := range r.members {
		users = append(users, Occupant{user, m.Seat})
	}
	slices.SortFunc(users, func(a, b Occupant) int { return a.Seat - b.Seat })
	return users
}

// Snapshot returns the room as it is now.
func (r *Room) Snapshot() Snapshot { return Snapshot{r.Epoch, r.Version, r.Users()} }
