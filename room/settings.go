package room

import "fmt"

// Settings are what is decided about one room. They live with the room, count as versions of
// it, and bind every node, whatever its Rules are. A room gets those of the Rules with its
// first commit, so that nodes with other Rules agree about it from then on.
type Settings struct {
	Capacity int  `json:"capacity"`        // how many seats there are; 0 means MaxSeats
	Closed   bool `json:"closed,omitzero"` // nobody comes in; members stay, and come back
	Keep     bool `json:"keep,omitzero"`   // Redis keeps the room when it is empty

	Data DataPolicy `json:"data,omitzero"` // who may set the room's data
}

// DataPolicy says who may set a room's data. The zero value is every member.
type DataPolicy string

// DataAdmins: only who has authority over the room may set its data.
const DataAdmins DataPolicy = "admins"

// Seats returns how many seats there are.
func (s Settings) Seats() int { return Capacity(s.Capacity).Seats() }

func (s Settings) check(rules Rules) error {
	if most := rules.most(); s.Capacity < 0 || s.Capacity > most {
		return &InvalidError{"capacity", fmt.Sprintf("must be from 0 (as many as there can be) to %d, not %d", most, s.Capacity)}
	}
	if s.Data != "" && s.Data != DataAdmins {
		return &InvalidError{"data", fmt.Sprintf("must be members (or nothing) or admins, not %.20q", string(s.Data))}
	}
	return nil
}

// Configure replaces a room's settings. [Room.Apply] fails with [ErrInvalid] if the members
// would not fit. Only who has authority over the room may ask for it: an action does not
// say who that is.
func Configure(s Settings) Action {
	return Action{kind: KindSettings, seat: AnySeat}.with(func(m *more) { m.settings = s })
}

func configure(r *Room, a Action) error {
	s := a.more.settings
	switch last := r.members.seats.highest(); {
	case r.Count() > s.Seats():
		return &InvalidError{"capacity", fmt.Sprintf("must not be less than the %d members, is %d", r.Count(), s.Capacity)}
	case last >= s.Seats():
		return &InvalidError{"capacity", fmt.Sprintf("must be more than %d, on which seat %s sits, not %d", last, r.members.seats.at(last), s.Capacity)}
	}
	settle(r, s)
	return nil
}

// settle gives a room those settings, if it has others or none.
func settle(r *Room, s Settings) {
	if !r.state.settled || r.state.settings != s {
		r.updateState(Update{Type: KindSettings, Detail: &Detail{Settings: &s}})
	}
}

// Settings returns the room's settings. It reports false if the room has none yet.
func (r *Room) Settings() (s Settings, settled bool) { return r.state.settings, r.state.settled }
