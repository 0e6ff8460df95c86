package room

import (
	"cmp"
	"fmt"
	"strings"
)

// Rules say what rooms allow. With the zero value rooms have MaxSeats, and newer sessions replace older ones.
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
	// Reject refuses a newer session with ErrDuplicate, unless the older is detached or its node's lease has expired.
	Reject
)

// Check returns an [InvalidError] that names an invalid rule, or nil.
func (r Rules) Check() error {
	if n := r.Seats(); n < 1 || n > MaxSeats {
		return invalid("Seating", "must have from 1 to %d seats, not %d", MaxSeats, n)
	}
	if r.Name != "" && CheckID(r.Name) != nil {
		return invalid("Name", "must be of A-Z a-z 0-9 . _ -, not %q", r.Name)
	}
	return r.Limits.check()
}

// ID returns the name by which nodes compare rules: Name, or the types of Seating and Starter, or "standard" if the
// game has none of its own.
func (r Rules) ID() string {
	if r.Name != "" {
		return r.Name
	}
	_, open := r.Seating.(Capacity)
	if (open || r.Seating == nil) && r.Starter == nil {
		return "standard"
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

// most returns the largest number of seats that settings may give a room: MaxSeats, or the limit of a game's own
// Seating.
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

// seat returns a seat for a user who joins. asked is as in Seating. back says that a failure had removed the user,
// whom a closed room then admits.
func (r Rules) seat(in *Room, user string, asked int, back bool) (seat int, err error) {
	all, most := seats(in, r), r.most()
	if in.state.settingsBy(r).Closed && !back {
		return 0, Refuse(ErrRoomClosed, "room %s is closed", in.ID)
	}
	if r.Seating == nil {
		seat, err = Capacity(0).Seat(View{in}, user, asked)
	} else {
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
		return 0, fmt.Errorf("%w: seat %d of room %s, which it gave to %s, is taken by %s", errSeating,
			seat, in.ID, user, in.members.seats.at(seat))
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
	return invalid("seat", "must be from 0 to %d, not %d", all-1, seat)
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
	MaxGroup    = 64      // users in a group, recipients of a message, or hands of a [Deal]
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
	for field, n := range map[string]int{
		"MemberData": l.MemberData, "PrivateData": l.PrivateData, "RoomData": l.RoomData, "Message": l.Message,
	} {
		if n < 0 || n > maxLimit {
			return tooLong(field, n, maxLimit)
		}
	}
	return nil
}

// Seating decides who may join a room, and on which seat. [Capacity] is one; a game's own can wrap it.
//
// Seat is called for each user who joins or is reserved a seat and is not in the room, with the name in its normal
// form and the requested seat or [AnySeat]. It returns a free seat, or an error: [Forbid] and [Refuse] make one that
// the player may read. The action also fails if the seat is taken or does not exist, or if Seat panics.
//
// Seat must be pure: it decides at once, by its arguments and by what never changes, without locks or I/O, because
// the room's lock is held meanwhile. It runs again if the lock was lost, and another node may decide the same join.
//
// A Seating may also have a method Seats() int, for the number of seats of its rooms, from 1 to MaxSeats, which is
// the default. A join that requests a seat beyond fails at once with [ErrInvalid].
type Seating interface {
	Seat(in View, user string, asked int) (seat int, err error)
}

// Capacity is the Seating of rooms that are open to everybody, on the requested or the lowest free seat. Its value is
// the number of seats, unless a room's [Settings] have another. Zero means [MaxSeats].
type Capacity int

// Seats returns the number of seats.
func (c Capacity) Seats() int {
	if c == 0 {
		return MaxSeats
	}
	return int(c)
}

// Seat returns the requested or the lowest free seat. It fails with [ErrFull], [ErrSeatTaken] or [ErrInvalid].
func (c Capacity) Seat(in View, _ string, asked int) (int, error) {
	all := c.Seats()
	if s, settled := in.room.Settings(); settled {
		all = s.Seats()
	}
	switch {
	case in.Count() >= all:
		return 0, full(in.room, all)
	case asked == AnySeat:
		return in.LowestFree(), nil
	case asked < 0 || asked >= all:
		return 0, invalidSeat(asked, all)
	case in.UserAt(asked) != "":
		return 0, Refuse(ErrSeatTaken, "seat %d of room %s is taken", asked, in.ID())
	}
	return asked, nil
}

func full(r *Room, all int) error {
	return Refuse(ErrFull, "room %s is full: %d of %d seats taken", r.ID, r.Count(), all)
}

// View shows a room to a [Seating] or a [Starter]. It is valid until Seat or Start returns.
type View struct{ room *Room }

// ID returns the room's id.
func (v View) ID() string { return v.room.ID }

// Count returns how many members there are.
func (v View) Count() int { return v.room.Count() }

// SeatOf returns the user's seat, and whether the user is in the room.
func (v View) SeatOf(user string) (seat int, seated bool) {
	m, seated := v.room.Member(user)
	return m.Seat, seated
}

// UserAt returns the user on a seat, "" for none.
func (v View) UserAt(seat int) string { return v.room.members.seats.at(seat) }

// LowestFree returns the lowest free seat, which is beyond the last one if the room is full.
func (v View) LowestFree() int { return v.room.members.seats.lowestFree() }

// Settings returns the room's settings, zero for a room that has none yet.
func (v View) Settings() Settings { return v.room.state.settings }

// Data returns the room's data as JSON, "" for none.
func (v View) Data() string { return v.room.state.data.String() }

// Users returns the members by seat. The slice is shared: do not change it.
func (v View) Users() []Occupant { return v.room.Snapshot().Users() }

// Starter decides when the game of a room begins. Start is called after each action that changes who is in the room,
// who is ready, or a member's data. If the game begins Start returns true and the data, as JSON, that the room gets in
// the same commit. It must check the room's data first, so that a game begins only once. [AllReady] is a Starter.
//
// Start must be pure, like a [Seating].
type Starter interface {
	Start(in View) (data string, begins bool)
}

// AllReady is the Starter of games that begin when at least that many members are there and all of them are ready.
// The room's data becomes {"started":true}, unless it has some already.
type AllReady int

// Start implements [Starter].
func (n AllReady) Start(in View) (data string, begins bool) {
	if in.Count() < max(int(n), 1) || in.Data() != "" {
		return "", false
	}
	for _, o := range in.Users() {
		if !o.Ready {
			return "", false
		}
	}
	return `{"started":true}`, true
}

// start calls the Starter if an update from index first on is a join, a leave, or of a member's data or readiness. It
// sets the data that the Starter returns. It fails with errSeating if Start panics, or the data cannot be used.
func start(r *Room, rules Rules, first int) (err error) {
	changed := false
	for i := first; i < len(r.updates); i++ {
		switch r.updates[i].Type {
		case KindJoin, KindLeave, kindMember:
			changed = true
		}
	}
	if !changed {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: Start panicked in room %s: %v", errSeating, r.ID, p)
		}
	}()
	data, begins := rules.Starter.Start(View{r})
	if !begins || data == r.state.data.String() {
		return nil
	}
	if data, err = parseData("data", data, rules.Limits.roomData()); err != nil {
		return fmt.Errorf("%w: Start in room %s: %w", errSeating, r.ID, err)
	}
	r.setData("", data)
	return nil
}

// Host returns the host of the room, "" for none. For a Seating it is the host as before the join.
func (v View) Host() string { return v.room.state.host }
