package room

import "unicode/utf8"

// Forever is the Until of a ban without end: 9999-12-31T23:59:59Z.
const Forever = 253402300799000

// Kick removes a user. The user's sessions are told why, and do not come back by themselves. It needs authority over
// the room, or a [Claim] of its host.
//
// A room has at most 1,000 bans. To make room for another, expired ones are lifted, and then the one that ends
// soonest; but the host may not lift that one, and fails with [ErrForbidden].
type Kick struct {
	User string
	Text string // the reason; everybody in the room may read it
	As   Claim  // the host's claim; zero with authority

	// Until bans the user, who need not be there, until that time: in ms since 1970 by the clock of the node that
	// receives a join, or [Forever]. A ban that ends later stays: only [Unban] shortens one. Zero is no ban.
	Until int64
}

func (Kick) kind() Kind                { return kindKick }
func (a Kick) subject() (string, bool) { return a.User, true }

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
		r.update(by.Node, u)
	case a.Until == 0:
		return 0, absent(r, a.User)
	}
	return m.Seat, nil
}

// Unban lifts a user's ban, if there is one. It needs authority over the room.
type Unban struct{ User string }

func (Unban) kind() Kind                { return kindKick }
func (a Unban) subject() (string, bool) { return a.User, true }

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
	r.updateState(Update{Type: kindBan, User: user, Detail: &Detail{Until: until}})
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

func (s *state) checkBan(id, user string, now int64) error {
	return checkBan(id, user, s.bans[user], now)
}

// checkBan fails with ErrBanned until a ban ends; 0 is no ban.
func checkBan(id, user string, until, now int64) error {
	switch {
	case until <= now:
		return nil
	case until >= Forever:
		return Refuse(ErrBanned, "%s is banned from room %s", user, id)
	}
	// rounded to the nearest second: now is an estimate, and rounding up would show 61 s for a ban of 60 s
	return Refuse(ErrBanned, "%s is banned from room %s for another %d s", user, id, max(1, (until-now+500)/1000))
}
