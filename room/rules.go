package room

import (
	"cmp"
	"fmt"
	"strings"
)

// Rules are what rooms allow. With the zero value they have MaxSeats, and newer sessions replace older ones.
type Rules struct {
	// Name tells these rules from others, also from earlier versions: 0 to 64 of A-Z a-z 0-9 . _ -. Nodes on one
	// Redis compare it. Empty means the Go types of Seating and Starter.
	Name string

	// Seating decides who may come in, and on which seat. Nil means Capacity(0).
	Seating Seating

	// Duplicate says which session of a user stays when a second one joins.
	Duplicate Duplicate

	// Starter decides when a game begins. Nil begins none.
	Starter Starter

	// Limits bound the data and messages of users.
	Limits Limits
}

// Duplicate says which session of a user stays in a room.
type Duplicate int

const (
	// Replace lets a newer session take the seat over.
	Replace Duplicate = iota
	// Reject refuses the newer one with ErrDuplicate, unless the older is detached, or its node's lease has expired.
	Reject
)

// Check returns an [InvalidError] that names the invalid rule.
func (r Rules) Check() error {
	if n := r.Seats(); n < 1 || n > MaxSeats {
		return &InvalidError{"Seating", fmt.Sprintf("must have from 1 to %d seats, not %d", MaxSeats, n)}
	}
	if r.Name != "" && CheckID(r.Name) != nil {
		return &InvalidError{"Name", fmt.Sprintf("must be of A-Z a-z 0-9 . _ -, not %q", r.Name)}
	}
	return r.Limits.check()
}

// StandardRules is the ID of rules without a Seating or Starter of the game's own.
const StandardRules = "standard"

// ID returns the name by which nodes compare rules.
func (r Rules) ID() string {
	if r.Name != "" {
		return r.Name
	}
	_, open := r.Seating.(Capacity)
	if (open || r.Seating == nil) && r.Starter == nil {
		return StandardRules
	}
	allowed := func(c rune) rune {
		if CheckID("x"+string(c)) != nil {
			return '_'
		}
		return c
	}
	return strings.Map(allowed, fmt.Sprintf("%T.%T", r.Seating, r.Starter))
}

func (r Rules) defaults() Settings {
	if n := r.Seats(); n < MaxSeats {
		return Settings{Capacity: n}
	}
	return Settings{}
}

// most returns the largest number of seats that settings may give a room: MaxSeats, or that of a game's own Seating.
func (r Rules) most() int {
	if _, open := r.Seating.(Capacity); open {
		return MaxSeats
	}
	return r.Seats()
}

// Seats returns how many seats a room without [Settings] has.
func (r Rules) Seats() int {
	if s, ok := r.Seating.(interface{ Seats() int }); ok {
		return s.Seats()
	}
	return MaxSeats
}

// seat returns a seat for a user who joins. back says that a failure removed the user, who may enter a closed room.
func (r Rules) seat(in *Room, user string, asked int, back bool) (seat int, err error) {
	all, most := seats(in, r), r.most()
	switch {
	case in.state.settingsBy(r).Closed && !back:
		return 0, Refuse(ErrRoomClosed, "room %s is closed", in.ID)
	case r.Seating == nil:
		seat, err = Capacity(0).Seat(View{in}, user, asked)
	default:
		seat, err = ask(r.Seating, in, user, asked)
	}
	switch {
	case err != nil:
		return 0, err
	case seat >= all && seat < most: // the game's own rule does not know the settings
		return 0, full(in, all)
	case seat < 0 || seat >= max(all, most):
		return 0, fmt.Errorf("%w: room %s has no seat %d, which it gave to %s", errSeating, in.ID, seat, user)
	case in.members.seats.has(seat):
		return 0, fmt.Errorf("%w: seat %d of room %s, which it gave to %s, is taken by %s", errSeating, seat, in.ID, user, in.members.seats.at(seat))
	}
	return seat, nil
}

// ask calls the game's Seating. A panic there fails the join, not the node.
func ask(s Seating, in *Room, user string, asked int) (seat int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: it panicked when %s joined room %s: %v", errSeating, user, in.ID, p)
		}
	}()
	return s.Seat(View{in}, user, asked)
}

func invalidSeat(seat, all int) error {
	return &InvalidError{"seat", fmt.Sprintf("must be from 0 to %d, not %d", all-1, seat)}
}

// settingsBy returns the room's settings, or those that the rules would give it.
func (s *state) settingsBy(rules Rules) Settings {
	if !s.settled {
		return rules.defaults()
	}
	return s.settings
}

// seats returns how many seats the room has. Its settings bind every node, even one whose rules have fewer.
func seats(r *Room, rules Rules) int {
	if n := r.state.settingsBy(rules).Capacity; n > 0 {
		return n
	}
	return rules.most()
}

// Defaults of [Limits], in bytes.
const (
	defaultMemberData  = 1 << 10
	defaultPrivateData = 1 << 10
	defaultRoomData    = 8 << 10
	defaultMessage     = 2 << 10
)

// Fixed limits.
const (
	MaxGroup    = 64      // users in a group, to whom a message is addressed, or who are dealt private data at once
	maxBans     = 1000    // of a room
	maxKickText = 200     // bytes of a kick's reason
	maxLimit    = 1 << 20 // bytes: the maximum of each of Limits
)

// Limits bound the data and messages of users, in bytes of JSON or text. Zero means the default. They apply to
// writes: a node shows what another has allowed.
type Limits struct {
	MemberData  int // of each member; zero means 1 KiB
	PrivateData int // private data of each member; zero means 1 KiB
	RoomData    int // of a room; zero means 8 KiB
	Message     int // zero means 2 KiB
}

func (l Limits) memberData() int  { return cmp.Or(l.MemberData, defaultMemberData) }
func (l Limits) privateData() int { return cmp.Or(l.PrivateData, defaultPrivateData) }
func (l Limits) roomData() int    { return cmp.Or(l.RoomData, defaultRoomData) }
func (l Limits) message() int     { return cmp.Or(l.Message, defaultMessage) }

func (l Limits) check() error {
	for field, n := range map[string]int{"MemberData": l.MemberData, "PrivateData": l.PrivateData, "RoomData": l.RoomData, "Message": l.Message} {
		if n < 0 || n > maxLimit {
			return tooLong(field, n, maxLimit)
		}
	}
	return nil
}
