package room

import (
	"math/rand/v2"
	"unicode/utf8"
)

// Claim lets the host of a room do an action that otherwise needs authority over the room. The action fails with
// [ErrForbidden] if the user is not the host at that time, and with [ErrNotMember] if the session is not the user's
// active one. The zero value claims nothing: the caller has authority.
type Claim struct{ User, Session string }

func (c Claim) check() (Claim, error) {
	user, err := checkActor(c.User, c.Session)
	return Claim{user, c.Session}, err
}

// prove fails unless the claim is true.
func (c Claim) prove(r *Room, by Origin) error {
	if c == (Claim{}) {
		return nil
	}
	if r.state.settings.Host == "" {
		return Forbid("only admins may do that in room %s: its settings give it no host", r.ID)
	}
	if _, err := activeMember(r, c.User, c.Session, by); err != nil {
		return err
	}
	if r.state.host != c.User {
		return Forbid("only the host of room %s and admins may do that, and %s is not the host", r.ID, c.User)
	}
	return nil
}

// Forever is the Until of a ban without end: 9999-12-31T23:59:59Z.
const Forever = 253402300799000

// Kick removes a user. The user's sessions are told why, and do not come back by themselves. It needs authority over
// the room, or a [Claim] of its host. Without a ban it fails with [ErrNotMember] if the user is not there.
//
// A room has at most 1,000 bans. Another ban lifts the expired ones. If none is expired, a Kick with authority lifts
// the ban that ends soonest, and one by the host fails with [ErrForbidden].
type Kick struct {
	User string
	Text string // the reason; everybody in the room may read it
	As   Claim  // the host's claim; zero with authority

	// Until bans the user, who need not be there, until that time: in ms since 1970 by the clock that all nodes share,
	// or [Forever]. A ban that ends later stays: only [Unban] shortens one. Zero is no ban.
	Until int64
}

func (a Kick) about() (Kind, string, bool) { return kindKick, a.User, true }

func (a Kick) check(Rules) (Action, error) {
	user, err := ParseUser(a.User)
	switch {
	case err != nil:
		return nil, err
	case !utf8.ValidString(a.Text):
		return nil, &InvalidError{"text", "is not valid UTF-8"}
	case len(a.Text) > maxKickText:
		return nil, tooLong("text", len(a.Text), maxKickText)
	case a.Until < 0 || a.Until > Forever:
		return nil, &InvalidError{"ban", "must end after 1970 and before the year 10000"}
	}
	a.User = user
	a.As, err = a.As.check()
	return a, err
}

func (a Kick) apply(r *Room, _ Rules, by Origin) (int, error) {
	if err := a.As.prove(r, by); err != nil {
		return 0, err
	}
	if a.Until > r.state.bans[a.User] {
		if !makeRoomForBan(r, a.User, by.At, a.As == Claim{}) {
			return 0, Forbid("ban: room %s has %d bans, and only admins may lift one for another", r.ID, maxBans)
		}
		ban(r, a.User, a.Until)
	}
	m, ok := r.Member(a.User)
	switch {
	case ok:
		u := Update{Type: KindLeave, User: a.User, Seat: m.Seat, Reason: reasonKicked, At: by.At}
		if a.Text != "" {
			u.Detail = &Detail{Text: a.Text}
		}
		r.update(u)
	case a.Until == 0:
		return 0, absent(r, a.User)
	}
	return m.Seat, nil
}

// Unban lifts a user's ban, if there is one. It needs authority over the room.
type Unban struct{ User string }

func (a Unban) about() (Kind, string, bool) { return kindKick, a.User, true }

func (a Unban) check(Rules) (Action, error) {
	user, err := ParseUser(a.User)
	if err != nil {
		return nil, err
	}
	return Unban{user}, nil
}

func (a Unban) apply(r *Room, _ Rules, _ Origin) (int, error) {
	if _, banned := r.state.bans[a.User]; banned {
		ban(r, a.User, 0)
	}
	return 0, nil
}

func ban(r *Room, user string, until int64) {
	r.update(Update{Type: kindBan, User: user, Detail: &Detail{Until: until}})
}

// makeRoomForBan makes room for a ban of user, if there are too many: it lifts expired bans, and if that is not
// enough and lift is set, the ban that ends soonest. It reports whether there is room.
func makeRoomForBan(r *Room, user string, now int64, lift bool) bool {
	bans := r.state.bans
	if _, banned := bans[user]; banned || len(bans) < maxBans {
		return true
	}
	soonest := ""
	for other, until := range bans {
		if until <= now {
			ban(r, other, 0)
		}
		if soonest == "" || until < bans[soonest] || until == bans[soonest] && other < soonest {
			soonest = other
		}
	}
	if len(r.state.bans) == maxBans && lift {
		ban(r, soonest, 0)
	}
	return len(r.state.bans) < maxBans
}

// Close closes a room: everybody leaves, nobody may come in, its timers are cancelled, and Redis forgets the room
// after a while. It needs authority over the room, or a [Claim] of its host; the host cannot close a kept room.
type Close struct {
	As Claim // the host's claim; zero with authority
}

func (Close) about() (Kind, string, bool) { return kindClose, "", true }

func (a Close) check(Rules) (_ Action, err error) {
	a.As, err = a.As.check()
	return a, err
}

func (a Close) apply(r *Room, rules Rules, by Origin) (int, error) {
	if err := a.As.prove(r, by); err != nil {
		return 0, err
	}
	if a.As != (Claim{}) && r.state.settings.Keep {
		return 0, Forbid("room %s is kept, and so only admins may close it", r.ID)
	}
	for _, o := range r.Snapshot().Users() {
		r.update(Update{Type: KindLeave, User: o.User, Seat: o.Seat, Reason: reasonClosed})
	}
	for _, name := range r.state.timers.Names() {
		r.endTimer(KindCountdown, "", name)
	}
	s := r.state.settingsBy(rules)
	s.Closed, s.Keep = true, false
	if g, _ := r.state.gone.of(everybody); g.Version == 0 || r.state.settings != s {
		r.update(Update{Type: kindSettings, At: by.At, Detail: &Detail{Settings: &s, Shut: true}})
	}
	return 0, nil
}

// Swap exchanges two members' seats, whatever Rules.Seating says. It fails with [ErrNotMember] if one is not there. It
// needs authority over the room, or a host's [Claim].
type Swap struct {
	Users []string
	As    Claim // the host's claim; zero with authority
}

func (Swap) about() (Kind, string, bool) { return kindSwap, "", true }

func (a Swap) check(Rules) (_ Action, err error) {
	if len(a.Users) != 2 {
		return nil, invalid("users", "must name 2 users, not %d", len(a.Users))
	}
	if a.Users, err = parseUsers("users", a.Users); err == nil {
		a.As, err = a.As.check()
	}
	return a, err
}

func (a Swap) apply(r *Room, _ Rules, by Origin) (int, error) {
	if err := a.As.prove(r, by); err != nil {
		return 0, err
	}
	var seats [2]int
	for i, user := range a.Users {
		m, ok := r.Member(user)
		if !ok {
			return 0, absent(r, user)
		}
		seats[1-i] = m.Seat
	}
	for i, user := range a.Users {
		r.update(Update{Type: kindSeat, User: user, Seat: seats[i]})
	}
	return 0, nil
}

// Shuffle gives each member another member's seat at random: each arrangement in which nobody keeps the seat is
// equally likely. A member who is alone stays. Rules.Seating is not asked. It needs authority, or a host's [Claim].
type Shuffle struct {
	As   Claim  // the host's claim; zero with authority
	Seed uint64 // random, chosen by the caller: one seed has one result for one room, however often it is applied
}

func (Shuffle) about() (Kind, string, bool) { return kindShuffle, "", true }

func (a Shuffle) check(Rules) (_ Action, err error) {
	a.As, err = a.As.check()
	return a, err
}

func (a Shuffle) apply(r *Room, _ Rules, by Origin) (int, error) {
	if err := a.As.prove(r, by); err != nil {
		return 0, err
	}
	users := r.Snapshot().Users() // by seat
	if len(users) < 2 {
		return 0, nil
	}
	random := rand.New(rand.NewPCG(a.Seed, 0))
	order := random.Perm(len(users))
	for keepsAny(order) { // one permutation in three keeps none
		order = random.Perm(len(users))
	}
	for i, o := range users {
		r.update(Update{Type: kindSeat, User: o.User, Seat: users[order[i]].Seat})
	}
	return 0, nil
}

func keepsAny(order []int) bool {
	for i, to := range order {
		if i == to {
			return true
		}
	}
	return false
}
