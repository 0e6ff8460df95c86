package room

import "fmt"

// Settings are what is decided about one room. They live with the room, count as versions of
// it, and bind every node, whatever its Rules are. A room gets those of the Rules with its
// first commit, so that nodes with other Rules agree about it from then on.
type Settings struct {
	Capacity int  `json:"capacity"`        // how many seats there are; 0 means MaxSeats
	Closed   bool `json:"closed,omitzero"` // nobody comes in; members stay, and come back
	Keep     bool `json:"keep,omitzero"`   // Redis keeps the room when it is empty
}

// Seats returns how many seats there are.
func (s Settings) Seats() int { return Capacity(s.Capacity).Seats() }

func (s Settings) check(rules Rules) error {
	if most := rules.most(); s.Capacity < 0 || s.Capacity > most {
		return &InvalidError{"capacity", fmt.Sprintf("must be from 0 (as many as there can be) to %d, not %d", most, s.Capacity)}
	}
	return nil
}

// Configure replaces a room's settings. [Room.Apply] fails with [ErrInvalid] if the members
// would not fit. Only who has authority over the room may ask for it: an action does not
// say who that is.
func Configure(s Settings) Action { return Action{kind: KindSettings, seat: AnySeat, settings: s} }

func configure(r *Room, a Action) error {
	s := a.settings
	switch last := r.members.seats.highest(); {
	case r.Count() > s.Seats():
		return &InvalidError{"capacity", fmt.Sprintf("must not be less than the %d members, is %d", r.Count(), s.Capacity)}
	case last >= s.Seats():
		return &InvalidError{"capacity", fmt.Sprintf("must be more than %d, on which seat %s sits, not %d", last, r.members.seats.at(last), s.Capacity)}
	}
	if !r.settled || r.settings != s {
		r.settle(KindSettings, s)
	}
	return nil
}

// settle carries out that the room has these settings now, and remembers it.
func (r *Room) settle(kind Kind, s Settings) {
	if r.pending.unsettle == nil {
		was, settled := r.settings, r.settled
		r.pending.unsettle = func() { r.settings, r.settled = was, settled }
	}
	r.pending.updates = append(r.pending.updates, Update{Type: kind, Settings: &s})
	r.settings, r.settled = s, true
}

// Settings returns the room's settings. It reports false if the room has none yet.
func (r *Room) Settings() (s Settings, settled bool) { return r.settings, r.settled }

// Restore gives a room that was read the settings that came with it.
func (r *Room) Restore(s Settings) { r.settings, r.settled = s, true }
