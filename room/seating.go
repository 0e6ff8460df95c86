package room

import "fmt"

// Seating decides who may come into a room, and on which seat. [Capacity] is one; a game's
// own rule can wrap it.
//
// Seat is called for each join of a user who is not in the room, with the user's name in
// its normal form and the seat asked for or [AnySeat]. It returns a seat that is free, or
// an error: [Forbid] or [Refuse] make one that the player may read. A seat that is taken
// or does not exist, and a panic, fail the join with an error.
//
// Seat must be pure: it decides by its arguments and by what never changes, at once,
// without locks or I/O: the room's lock is held meanwhile. It runs again when a hold of the
// lock was lost, and another node may decide the same join.
//
// A Seating may also have a method Seats() int: how many seats its rooms have, from 1 to
// MaxSeats, which is the number without it. A join that asks for another seat then fails
// with [ErrInvalid] before it waits for the room.
type Seating interface {
	Seat(in View, user string, asked int) (seat int, err error)
}

// Capacity is the Seating of rooms that are open to everybody, on the lowest free seat or the
// one asked for. They have so many seats, unless their [Settings] say otherwise. Zero means
// [MaxSeats].
type Capacity int

// Seats returns how many seats there are.
func (c Capacity) Seats() int {
	if c == 0 {
		return MaxSeats
	}
	return int(c)
}

// Seat returns the lowest free seat or the one asked for. It fails with [ErrFull],
// [ErrSeatTaken] or [ErrInvalid].
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

// View is a room as a [Seating] may look at it. It is good until Seat returns.
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

// UserAt returns who sits on a seat, "" if nobody does.
func (v View) UserAt(seat int) string { return v.room.members.seats.at(seat) }

// LowestFree returns the lowest free seat, which may be beyond the last one of a full room.
func (v View) LowestFree() int { return v.room.members.seats.lowestFree() }

// Settings returns the room's settings, which are zero for a room that has none yet.
func (v View) Settings() Settings { return v.room.state.settings }

// Data returns the room's data as JSON, "" for none.
func (v View) Data() string { return v.room.state.data.String() }

// Users returns who is in the room, by seat. The slice is shared: do not change it.
func (v View) Users() []Occupant { return v.room.Snapshot().Users() }

// Starter decides when the game of a room begins. Start is called in each commit that changes who
// is in the room or who is ready, and returns the data that the room gets in that same commit, as
// JSON; or false while the game has not to begin. So a game begins exactly once, if Start heeds
// what the room's data say already. [AllReady] is one.
//
// Start must be pure, as a [Seating] must.
type Starter interface {
	Start(in View) (data string, begins bool)
}

// AllReady is the Starter of games that begin when at least so many members are there and all of
// them are ready. The room's data become {"started":true}, if there are none before.
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

// start asks the Starter after the updates of an action, which begin at first.
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
