package room

import (
	"strconv"
	"strings"
)

// The grace is how long a user without a connection keeps the seat. By default each node counts its own grace for its
// own members. With Settings.Grace the room counts it: the session of a member who is away contains the deadline, any
// node enforces it ([Upkeep].Due), and the member belongs to no node.

// minReservation is how long a seat is reserved at least, in ms: sessions that follow a move need time to arrive.
const minReservation = 5000

// halfGrace is the longest grace of a seat that half a move has reserved, in ms. The other half follows within two TTLs of
// a lock, or later if Redis fails over.
const halfGrace = 30_000

// Grace is a time in ms, plus 1. The zero value is no time: the nodes' own. A negative one is invalid.
type Grace int64

// NewGrace returns the Grace of a time in ms.
func NewGrace(ms int64) Grace {
	if ms < 0 {
		return Grace(ms)
	}
	return Grace(ms + 1)
}

// Millis returns the time in ms. set is false for the zero value.
func (g Grace) Millis() (ms int64, set bool) {
	if g < 0 {
		return int64(g), true
	}
	return int64(g) - 1, g != 0
}

// MarshalJSON implements [json.Marshaler] with the number. The zero value is left out where a Grace is written.
func (g Grace) MarshalJSON() ([]byte, error) {
	ms, _ := g.Millis()
	return strconv.AppendInt(nil, ms, 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (g *Grace) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseInt(string(text), 10, 64)
	*g = NewGrace(ms)
	return err
}

// Deadline returns when the user of a stored session leaves, in ms since 1970; 0 if the session is connected, or if its
// node decides that.
func Deadline(session string) int64 {
	deadline, _ := splitSession(session)
	return deadline
}

// splitSession returns the deadline and the id in a stored session: id, ~id, ~+id, ~deadline~id or ~+deadline~id.
func splitSession(session string) (deadline int64, id string) {
	rest, away := strings.CutPrefix(session, detached)
	if !away {
		return 0, session
	}
	rest = strings.TrimPrefix(rest, reserved[len(detached):])
	if digits, id, found := strings.Cut(rest, detached); found {
		if deadline, err := strconv.ParseInt(digits, 10, 64); err == nil && deadline > 0 {
			return deadline, id
		}
	}
	return 0, rest
}

// withDeadline returns the stored session of a member who is away (detached) or has not come yet (reserved).
func withDeadline(prefix string, deadline int64, id string) string {
	if deadline == 0 {
		return prefix + id
	}
	return prefix + strconv.FormatInt(deadline, 10) + detached + id
}

// deadline returns the deadline of a member of whom nobody has heard since ago ms. It is 0 if the settings have no
// grace, or if it is not longer than ago.
func (s Settings) deadline(by Origin, ago int64) int64 {
	if grace, set := s.Grace.Millis(); set && grace > ago {
		return by.At + grace - ago
	}
	return 0
}

// reserved returns the stored session of a seat that is reserved for session. See [Reserve].Half.
func (s Settings) reserved(session string, by Origin, half bool) string {
	ms, set := s.Grace.Millis()
	switch {
	case !set:
		return reserved + session
	case half:
		ms = min(ms, halfGrace)
	}
	return withDeadline(reserved, by.At+max(ms, minReservation), session)
}

// stray makes a connected member away.
func stray(r *Room, user string, m Member, deadline int64) {
	r.update(Update{Type: kindAway, User: user, Seat: m.Seat, Session: withDeadline(detached, deadline, m.Session),
		Old: m.Session})
}

// disconnect makes a connected member away, or leave if the settings give no time to come back.
func disconnect(r *Room, user string, m Member, by Origin) {
	if ms, set := r.state.settings.Grace.Millis(); set && ms == 0 {
		r.update(Update{Type: KindLeave, User: user, Seat: m.Seat, Reason: ReasonTimeout})
		return
	}
	stray(r, user, m, r.state.settings.deadline(by, 0))
}

// keeps reports whether the user of a session stays although the grace of its node is over, because the settings have
// another one. It makes a member whose end of connection was not recorded away.
func keeps(r *Room, user string, m Member, by Origin) bool {
	switch _, set := r.state.settings.Grace.Millis(); {
	case Deadline(m.Session) > 0:
		return Deadline(m.Session) > by.At
	case !set, m.Detached():
		return false
	}
	disconnect(r, user, m, by)
	return true
}

// expire makes the members leave whose deadline is at now or before, and returns their number.
func expire(r *Room, now int64) (n int) {
	for _, o := range r.Snapshot().Users() {
		m, _ := r.Member(o.User)
		if deadline := Deadline(m.Session); deadline > 0 && deadline <= now {
			r.update(Update{Type: KindLeave, User: o.User, Seat: m.Seat, Reason: ReasonTimeout})
			n++
		}
	}
	return n
}
