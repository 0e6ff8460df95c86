package room

import (
	"fmt"
	"unicode/utf8"
)

// Forever is a ban without end: the last millisecond but 999 of the year 9999.
const Forever = 253402300799000

// Kick throws a user out. The users' sessions learn why, and do not come back by themselves. With
// [Action.Ban] the user may not come in again for a while, and need not be there. It needs
// authority over the room, as do [Unban], [Shut], [Reserve] and [Release].
func Kick(user string) Action {
	return Action{kind: KindKick, user: user, seat: AnySeat}.with(func(*more) {})
}

// Saying says why somebody is kicked. Everybody in the room may read it.
func (a Action) Saying(text string) Action { return a.with(func(m *more) { m.text = text }) }

// Ban makes a [Kick] that of a user who may not come in again until then, in ms since 1970 by the
// clock of the node that a join comes to.
func (a Action) Ban(until int64) Action { return a.with(func(m *more) { m.until = until }) }

// unban is the end of a ban that is lifted: no ban is meant by a Kick without one.
const unban = -1

// Unban lets a user come in again. It is no error for a user who may.
func Unban(user string) Action { return Kick(user).Ban(unban) }

// Shut closes a room: everybody leaves, nobody comes in, and Redis forgets the room after a while.
func Shut() Action { return Action{kind: KindShut, seat: AnySeat}.with(func(*more) {}) }

func checkKick(a Action) (_ Action, err error) {
	if a.user, err = ParseUser(a.user); err != nil {
		return a, err
	}
	switch text, until := a.more.text, a.more.until; {
	case !utf8.ValidString(text):
		return a, &InvalidError{"text", "is not valid UTF-8"}
	case len(text) > MaxKickText:
		return a, tooLong("text", len(text), MaxKickText)
	case until < unban || until > Forever:
		return a, &InvalidError{"ban", "must end after 1970 and before the year 10000"}
	}
	return a, nil
}

func kick(r *Room, a Action, by Origin) (seat int, err error) {
	if until := a.more.until; until == unban {
		if _, banned := r.state.bans[a.user]; banned {
			ban(r, a.user, 0)
		}
		return 0, nil
	} else if until > 0 {
		if err := tidyBans(r, a.user, by.At); err != nil {
			return 0, err
		}
		ban(r, a.user, until)
	}
	m, ok := r.Member(a.user)
	switch {
	case ok:
		u := Update{Type: KindLeave, User: a.user, Seat: m.Seat, Reason: ReasonKicked}
		if a.more.text != "" {
			u.Detail = &Detail{Text: a.more.text}
		}
		r.update(by.Node, u)
	case a.more.until == 0:
		return 0, absent(r, a.user)
	}
	return m.Seat, nil
}

func ban(r *Room, user string, until int64) {
	r.updateState(Update{Type: KindBan, User: user, Detail: &Detail{Until: until}})
}

// tidyBans lifts the bans that are over, if there are too many for one more, of user.
func tidyBans(r *Room, user string, now int64) error {
	if _, banned := r.state.bans[user]; banned || len(r.state.bans) < MaxBans {
		return nil
	}
	for other, until := range r.state.bans {
		if until <= now {
			ban(r, other, 0)
		}
	}
	if len(r.state.bans) < MaxBans {
		return nil
	}
	return &InvalidError{"ban", fmt.Sprintf("is one too many: a room can have %d", MaxBans)}
}

// checkBan fails with ErrBanned if a user may not come in.
func checkBan(r *Room, user string, now int64) error {
	until, banned := r.state.bans[user]
	switch {
	case !banned || until <= now:
		return nil
	case until >= Forever:
		return Refuse(ErrBanned, "%s is banned from room %s", user, r.ID)
	}
	return Refuse(ErrBanned, "%s is banned from room %s for another %d s", user, r.ID, (until-now+999)/1000)
}

func shut(r *Room, rules Rules, by Origin) {
	for _, o := range r.Snapshot().Users() {
		r.update(by.Node, Update{Type: KindLeave, User: o.User, Seat: o.Seat, Reason: ReasonClosed})
	}
	s := r.state.settingsBy(rules)
	s.Closed, s.Keep = true, false
	if g, _ := r.state.gone.of(everybody); g.Version == 0 || r.state.settings != s {
		r.updateState(Update{Type: KindSettings, Detail: &Detail{Settings: &s, Shut: true}})
	}
}
