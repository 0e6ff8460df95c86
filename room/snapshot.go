package room

import "slices"

// Occupant is a user on a seat.
type Occupant struct {
	User string
	Seat int  // counted from 0
	Away bool // the user's connection is lost, or the user has not come yet; the seat is kept for a while

	Ready bool   // set by the user
	Data  string // set by the user, as JSON; empty for none
}

// Snapshot is a room at one version. It is cheap, and does not change. The zero value is a room without commits.
type Snapshot struct {
	Epoch   string // empty for a room without commits
	Version uint64

	Settings Settings
	Data     string // of the room, as JSON; empty for none

	view  *seatView
	state *state // nil in the zero value
}

// Count returns how many members there are.
func (s Snapshot) Count() int {
	if s.view == nil {
		return 0
	}
	return s.view.count
}

// Users returns the members by seat. The slice is shared: do not change it.
func (s Snapshot) Users() []Occupant {
	if s.view == nil {
		return nil
	}
	return s.view.occupants()
}

// Shared returns the result of the first call's make, computed once per snapshot, such as an encoding.
func (s Snapshot) Shared(make func() any) any {
	if s.view == nil {
		return make()
	}
	s.view.memo.Do(func() { s.view.shared = make() })
	return s.view.shared
}

// MayWatch fails with [ErrBanned] or [ErrForbidden] unless a user, "" for unknown, may see room id at now, in ms
// since 1970. Members may.
func (s Snapshot) MayWatch(id, user string, now int64) error {
	rule := s.WatchRule(user)
	rule.onlyMembers = rule.onlyMembers && (user == "" || !slices.ContainsFunc(s.Users(), func(o Occupant) bool { return o.User == user }))
	return rule.Check(id, user, now)
}

// WatchRule decides whether one user who is no member may watch a room. The zero value allows it.
type WatchRule struct {
	onlyMembers bool
	until       int64 // of a ban, in ms since 1970; 0 for none
}

// WatchRule returns the room's rule for a user.
func (s Snapshot) WatchRule(user string) WatchRule {
	if s.state == nil {
		return WatchRule{}
	}
	return WatchRule{s.Settings.Watch != WatchAll, s.state.bans[user]}
}

// After returns the rule for a user after an event.
func (w WatchRule) After(e *Event, user string) WatchRule {
	if e.Snapshot != nil {
		return e.Snapshot.WatchRule(user)
	}
	if e.commit == nil {
		return w
	}
	for i := range e.commit.Updates {
		switch u := &e.commit.Updates[i]; {
		case u.Type == kindBan && u.User == user:
			w.until = u.detail().Until
		case u.Type == kindSettings && u.detail().Settings != nil:
			w.onlyMembers = u.Settings.Watch != WatchAll
		}
	}
	return w
}

// Check fails with [ErrBanned] or [ErrForbidden] unless the user may watch room id at now, in ms since 1970.
func (w WatchRule) Check(id, user string, now int64) error {
	if err := checkBan(id, user, w.until, now); err != nil || !w.onlyMembers {
		return err
	}
	return onlyMembers(id)
}

func onlyMembers(id string) error {
	return Forbid("the settings of room %s let only members watch it", id)
}
