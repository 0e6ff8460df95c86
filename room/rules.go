package room

import "fmt"

// Rules are what the rooms of a coordinator allow. With the zero value MaxSeats users have
// a seat in a room, and a newer session replaces an older one.
type Rules struct {
	// Seating decides who may come in, and on which seat. Nil means Capacity(0).
	Seating Seating

	// Duplicate says which session of a user stays when a second one joins.
	Duplicate Duplicate

	// Starter decides when a game begins. Nil means that no rule does.
	Starter Starter

	// Limits bound what users can set and say.
	Limits Limits
}

// Duplicate says which session of a user stays in a room.
type Duplicate int

const (
	// Replace lets a newer session take the seat over.
	Replace Duplicate = iota
	// Reject refuses it with ErrDuplicate, unless the older one is detached, or the
	// lease of its node is over.
	Reject
)

// Check returns an [InvalidError] that names the rule which cannot be used.
func (r Rules) Check() error {
	if n := r.Seats(); n < 1 || n > MaxSeats {
		return &InvalidError{"Seating", fmt.Sprintf("must have from 1 to %d seats, not %d", MaxSeats, n)}
	}
	return r.Limits.check()
}

// defaults returns the settings of a room that has none.
func (r Rules) defaults() Settings {
	if n := r.Seats(); n < MaxSeats {
		return Settings{Capacity: n}
	}
	return Settings{}
}

// most returns how many seats a room's settings may give it. Only a game's own Seating sets a
// limit to that.
func (r Rules) most() int {
	if _, open := r.Seating.(Capacity); open {
		return MaxSeats
	}
	return r.Seats()
}

// Seats returns how many seats a room has without [Settings].
func (r Rules) Seats() int {
	if s, ok := r.Seating.(interface{ Seats() int }); ok {
		return s.Seats()
	}
	return MaxSeats
}

// seat returns the seat of a user who comes in.
// back says that the user was a member before a failure, who comes back also into a closed room.
func (r Rules) seat(in *Room, user string, asked int, back bool) (seat int, err error) {
	settings := in.state.settingsBy(r)
	switch {
	case settings.Closed && !back:
		return 0, Refuse(ErrRoomClosed, "room %s is closed", in.ID)
	case r.Seating == nil:
		seat, err = Capacity(0).Seat(View{in}, user, asked)
	default:
		seat, err = ask(r.Seating, in, user, asked)
	}
	switch {
	case err != nil:
		return 0, err
	case seat >= settings.Seats() && seat < r.most(): // the game's own rule does not know the settings
		return 0, full(in, settings.Seats())
	case seat < 0 || seat >= r.most():
		return 0, fmt.Errorf("%w: room %s has no seat %d, which it gave to %s", ErrSeating, in.ID, seat, user)
	case in.members.seats.has(seat):
		return 0, fmt.Errorf("%w: seat %d of room %s, which it gave to %s, is taken by %s", ErrSeating, seat, in.ID, user, in.members.seats.at(seat))
	}
	return seat, nil
}

// ask calls a game's own rule. If that panics, the join fails and not the node.
func ask(s Seating, in *Room, user string, asked int) (seat int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: it panicked when %s joined room %s: %v", ErrSeating, user, in.ID, p)
		}
	}()
	return s.Seat(View{in}, user, asked)
}

func invalidSeat(seat, all int) error {
	return &InvalidError{"seat", fmt.Sprintf("must be from 0 to %d, not %d", all-1, seat)}
}

// Apply runs one action by the rules, on behalf of by, and returns the seat it was about.
// On an error ([ErrNotMember], [ErrDuplicate], [ErrRoomClosed], [ErrBanned], [ErrForbidden],
// [ErrConflict], [ErrInvalid], or that of Rules.Seating) the room is as it was.
func (r *Room) Apply(a Action, rules Rules, by Origin) (seat int, err error) {
	before := len(r.updates)
	if a.more != nil && !isExpected(r, a.more) {
		return 0, Refuse(ErrConflict, "room %s is not at version %d any more", r.ID, a.more.version)
	}
	seat, err = r.apply(a, rules, by)
	if err == nil && rules.Starter != nil {
		err = start(r, rules, before)
	}
	if err != nil {
		r.undo(before)
		return 0, err
	}
	if !r.state.settled && len(r.updates) > before {
		defaults := rules.defaults()
		r.updateState(Update{Type: KindDefaults, Detail: &Detail{Settings: &defaults}})
	}
	return seat, nil
}

// isExpected reports whether the room is at the version that an action is for.
func isExpected(r *Room, m *more) bool {
	if !m.expect || m.unchanged {
		return true
	}
	return m.version == r.Version && len(r.updates) == 0 && (m.epoch == "" || m.epoch == r.Epoch)
}

// settingsBy returns the room's settings, or those that it gets by the rules.
func (s *state) settingsBy(rules Rules) Settings {
	if !s.settled {
		return rules.defaults()
	}
	return s.settings
}

// seats returns how many seats the room has.
func seats(r *Room, rules Rules) int { return min(r.state.settingsBy(rules).Seats(), rules.most()) }

func (r *Room) apply(a Action, rules Rules, by Origin) (seat int, err error) {
	switch a.kind {
	case KindSettings:
		return 0, configure(r, a)
	case KindData:
		return 0, setData(r, a)
	case KindMember, kindReady:
		return setMember(r, a)
	case KindMessage:
		return say(r, a)
	case KindKick:
		return kick(r, a, by)
	case KindShut:
		shut(r, rules, by)
		return 0, nil
	case KindReserve:
		return 0, reserve(r, a, rules, by)
	case KindRelease:
		return 0, release(r, a, by)
	case KindLeave:
		return leave(r, a, by)
	case kindKeep:
		return keep(r, a, by)
	case kindDetach:
		return detach(r, a)
	case kindEvict:
		return evict(r, a.more.node), nil
	case kindRenew:
		if a.more.epoch == r.Epoch && r.Epoch != "" {
			r.Renew()
		}
		return 0, nil
	}
	return join(r, a, rules, by)
}

func join(r *Room, a Action, rules Rules, by Origin) (int, error) {
	if m, ok := r.Member(a.user); ok {
		if !yields(m, a, rules) {
			return 0, duplicate(r, a.user, m)
		}
		speak(r, a, m, by)
		return m.Seat, nil
	}
	if err := checkGone(r, a); err != nil {
		return 0, err
	}
	if err := checkBan(r, a.user, by.At); err != nil {
		return 0, err
	}
	if _, gone := r.state.gone.of(a.user); gone && a.again {
		return 0, absent(r, a.user) // somebody has taken the user out
	}
	seat, err := rules.seat(r, a.user, a.seat, a.again && !a.follows)
	if err != nil {
		return 0, err
	}
	r.update(by.Node, Update{Type: KindJoin, User: a.user, Seat: seat, Session: a.session, At: by.At})
	return seat, nil
}

// yields reports whether a member's session gives way to that of a join.
func yields(m Member, a Action, rules Rules) bool {
	switch {
	case m.SessionID() == a.session:
		return true
	case a.follows:
		return m.Detached()
	case a.again:
		return m.Reserved() // else the member's session is newer, connected or not
	case rules.Duplicate == Replace, m.Detached():
		return true
	}
	return a.dead != "" && m.Node == a.dead
}

// speak makes a's session speak for a member, if it does not already.
func speak(r *Room, a Action, m Member, by Origin) {
	if m.Session != a.session || m.Node != by.Node {
		kind := KindReplace
		if m.Detached() {
			kind = KindBack
		}
		r.update(by.Node, Update{Type: kind, User: a.user, Seat: m.Seat, Session: a.session, Old: m.Session})
	}
}

func keep(r *Room, a Action, by Origin) (int, error) {
	m, ok := r.Member(a.user)
	switch {
	case !ok:
		return 0, absent(r, a.user)
	case m.SessionID() != a.session:
		return 0, duplicate(r, a.user, m)
	}
	speak(r, a, m, by)
	return m.Seat, nil
}

func leave(r *Room, a Action, by Origin) (int, error) {
	m, ok := r.Member(a.user)
	switch {
	case !ok:
		return 0, absent(r, a.user)
	case m.SessionID() != a.session:
		return 0, elsewhere(r, a.user)
	}
	r.update(by.Node, Update{Type: KindLeave, User: a.user, Seat: m.Seat, Reason: a.reason})
	return m.Seat, nil
}

func detach(r *Room, a Action) (int, error) {
	m, ok := r.Member(a.user)
	switch {
	case !ok:
		return 0, absent(r, a.user)
	case m.Session == a.session:
		r.update(m.Node, Update{Type: KindAway, User: a.user, Seat: m.Seat, Session: detached + a.session, Old: a.session})
	case m.SessionID() != a.session:
		return 0, elsewhere(r, a.user)
	}
	return m.Seat, nil
}

// evict returns how many members have left.
func evict(r *Room, node string) (n int) {
	for _, o := range r.Snapshot().Users() {
		if m, _ := r.Member(o.User); m.Node == node {
			r.update(node, Update{Type: KindLeave, User: o.User, Seat: m.Seat, Reason: ReasonNode})
			n++
		}
	}
	return n
}

func duplicate(r *Room, user string, m Member) error {
	return &DuplicateError{m.Node, fmt.Sprintf("%s is in room %s with another session", user, r.ID)}
}

func absent(r *Room, user string) error {
	return Refuse(ErrNotMember, "%s is not in room %s", user, r.ID)
}

func elsewhere(r *Room, user string) error {
	return Refuse(ErrNotMember, "%s is in room %s with another session", user, r.ID)
}
