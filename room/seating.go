package room

import "fmt"

// Seating decides who may join a room, and on which seat. [Capacity] is one; a game's own can wrap it.
//
// Seat is called for each join of a user who is not in the room, with the user's name in its normal form and the
// requested seat or [AnySeat]. It returns a free seat, or an error: [Forbid] and [Refuse] make one that the player
// may read. The join also fails if the seat is taken or does not exist, or if Seat panics.
//
// Seat must be pure: it decides at once, by its arguments and by what never changes, without locks or I/O, because
// the room's lock is held meanwhile. It runs again if the lock was lost, and another node may decide the same join.
//
// A Seating may also have a method Seats() int, for the number of seats of its rooms, from 1 to MaxSeats, which is
// the default. A join that requests a seat beyond fails at once with [ErrInvalid].
type Seating interface {
	Seat(in View, user string, asked int) (seat int, err error)
}

// Capacity is the Seating of rooms that are open to everybody, on the requested or the lowest free seat. It is their
// number of seats unless their [Settings] say otherwise. Zero means [MaxSeats].
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

// Starter decides when the game of a room begins. Start is called in each commit that changes who is in the room or
// who is ready. If the game begins it returns true and the data, as JSON, that the room gets in that commit. Start
// must check the room's data first, so that a game begins only once. [AllReady] is a Starter.
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

// start calls the Starter after an action whose updates begin at index first.
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
	r.updateState(Update{Type: kindData, Detail: &Detail{Data: jsonOf(data)}})
	return nil
}
