package model

import (
	"cmp"
	"regexp"
	"strings"
)

func (r *Room) join(e *Entry, c *Change) {
	says1 := says(theEntry, "%s joins on seat %d", quoted(c.User), c.Seat)
	if other, taken := r.Seats.At[c.Seat]; taken && other != c.User {
		r.report(RuleSeat, e.Version, says1, says(before, "%s", r.sitting(other)))
	}
	if r.Members[c.User] != nil {
		r.report(RuleJoin, e.Version, says1, says(before, "%s", r.sitting(c.User)))
		r.Seats.Drop(c.User)
	}
	if (Settings{}).Beyond(c.Seat) {
		r.report(RuleCapacity, e.Version, says1, says("the rules", "seats are from 0 to %d", MaxSeats-1))
	}
	r.checkBan(c.User, sighting{e.Version, c.At}, r.bans[c.User])
	m := &Member{
		Away: strings.HasPrefix(c.Session, "~"), since: e.Version, session: c.Session, node: cmp.Or(c.Of, e.Node),
		at: c.At, readyKnown: true, Data: Datum{known: true}, Private: Datum{known: true},
		Agreed: Datum{known: true},
	}
	if hasDeadline(c.Session) {
		m.node = noNode
	}
	r.Members[c.User] = m
	r.Seats.Put(c.User, c.Seat)
	r.more++
	r.admit(e, c, says1)
	delete(r.gone, c.User)
	delete(r.removals, c.User)
	if !r.complete {
		r.taken[c.Seat] = e.Version
		if _, known := r.came[c.User]; !known {
			r.came[c.User] = sighting{e.Version, c.At}
		}
	}
}

// admit judges a join by the settings, or notes what these have to allow while they are unknown.
func (r *Room) admit(e *Entry, c *Change, says1 Side) {
	if c.Again {
		r.bringBack(e, c, says1)
	}
	if r.settings == nil {
		if !c.Again {
			r.early.joins = e.Version
		}
		if r.more > r.early.more {
			r.early.more, r.early.moreAt = r.more, e.Version
		}
		if c.Seat > r.early.seat {
			r.early.seat, r.early.seatAt = c.Seat, e.Version
		}
		return
	}
	if r.settings.Beyond(c.Seat) {
		r.report(RuleCapacity, e.Version, says1, says(before, "the room has %d seats", r.settings.Capacity))
	}
	if r.settings.Closed && !c.Again {
		r.report(RuleClosed, e.Version, says1, says(before, "settings %s", value(r.settings.text)))
	}
	if over := r.settings.Over(r.more); over > r.rush.over {
		r.rush.over, r.rush.version = over, e.Version
	}
	r.checkRush()
}

// checkBan reports a join before the user's ban is over. Both times are of the same node, or of two whose
// clocks agree.
func (r *Room) checkBan(user string, join sighting, until int64) {
	if join.at < until && join.at > 0 {
		r.report(RuleBanned, join.version, says(theJournal, "%s joins at %d", quoted(user), join.at),
			says("the ban", "lasts until %d", until))
	}
}

// bringBack judges a join that restores a session after a failure, which even a closed room allows: the user
// must have been in the room, and nobody may have removed the user. A user whom this journal never mentions
// belonged to a room that Redis lost together with its journal.
func (r *Room) bringBack(e *Entry, c *Change, says1 Side) {
	removed, by := r.removals[c.User]
	if !by {
		removed, by = r.removals[everybody]
	}
	switch {
	case by:
		r.report(RuleClosed, e.Version, says1, says(before, "%s was taken out at version %d: %s", quoted(c.User),
			removed.Version, quoted(removed.Reason)))
	case r.complete && !r.gone[c.User] && !r.anew:
		r.anew = true
		r.Lost++
	}
}

func (r *Room) leave(e *Entry, c *Change) {
	if r.present(c) == nil {
		return
	}
	delete(r.Members, c.User)
	r.Seats.Drop(c.User)
	r.more--
	r.gone[c.User] = true
	switch c.Reason {
	case "kicked", "moved":
		r.removals.add(c.User, removal{e.Version, c.Reason, c.Text, c.Target, c.Labels})
	}
}

// speak replays a change of a member's session or of its state.
func (r *Room) speak(e *Entry, c *Change) {
	m := r.present(c)
	if m == nil {
		return
	}
	if c.Type != "replace" {
		m.Away = c.Type == "away"
	}
	if r.Told {
		return
	}
	isAway, wasAway := strings.HasPrefix(c.Session, "~"), strings.HasPrefix(c.Old, "~")
	fits := c.Session != "" && c.Old != ""
	switch c.Type {
	case "away":
		fits = fits && !wasAway && (c.Session == "~"+c.Old || hasDeadline(c.Session) && strings.HasSuffix(c.Session, "~"+c.Old))
	case "back":
		fits = fits && wasAway && !isAway
	case "replace": // replaces a session, or one reservation by another
		fits = fits && (!wasAway && !isAway || isReserved(c.Old) && isReserved(c.Session))
	}
	if !fits || m.session != "" && c.Old != m.session {
		r.report(RuleSession, e.Version, says(theEntry, "%s of %s from session %s to %s", c.Type, quoted(c.User),
			quoted(c.Old), quoted(c.Session)),
			says(before, "session %s speaks for %s", quoted(m.session), quoted(c.User)))
	}
	m.session, m.Away, m.orNode = c.Session, isAway, ""
	// a member that goes away keeps the name of its node, which may be its last one
	if c.Type == "away" && m.node != e.Node {
		m.orNode = m.node
		if m.node == "" {
			m.orNode = anyNode
		}
	}
	if m.node = e.Node; hasDeadline(c.Session) {
		m.node, m.orNode = noNode, ""
	}
}

// isReserved reports whether a session only reserves a seat.
func isReserved(session string) bool { return strings.HasPrefix(session, "~+") }

// withDeadline matches the session of a member who is away, or has not come yet, and leaves at a time by the room's
// grace.
var withDeadline = regexp.MustCompile(`^~\+?[1-9][0-9]*~`)

func hasDeadline(session string) bool { return withDeadline.MatchString(session) }

// anyNode is an unknown node, noNode that of a member with a deadline.
const (
	anyNode = "*"
	noNode  = "-"
)

// present returns the member of a change, or nil. It reports a missing member, or another seat. If the change is the
// first to mention the user, the user was a member from the beginning.
func (r *Room) present(c *Change) *Member {
	says1 := func() Side { return says(theEntry, "%s of %s on seat %d", c.Type, quoted(c.User), c.Seat) }
	m := r.Members[c.User]
	switch {
	case m == nil && (r.complete || r.gone[c.User]):
		r.report(RuleAbsent, r.version, says1(), says(before, "%s is not in the room", quoted(c.User)))
	case m == nil:
		return r.infer(c.User, c.Seat)
	case r.Seats.Of[c.User] != c.Seat:
		r.report(RuleMoved, r.version, says1(), says(before, "%s", r.sitting(c.User)))
	}
	return m
}

// infer adds a user who is mentioned for the first time as a member from the beginning, on that seat.
func (r *Room) infer(user string, seat int) *Member {
	here := says(theJournal, "%s was on seat %d when it began, as version %d shows", quoted(user), seat, r.version)
	if other, taken := r.Seats.At[seat]; taken {
		r.report(RuleSeat, r.version, here, says(theJournal, "%s", r.sitting(other)))
	} else if version, taken := r.taken[seat]; taken {
		r.report(RuleSeat, version, here, says(theJournal, "another user had seat %d, as version %d shows", seat,
			version))
	}
	r.taken[seat] = r.version
	m := &Member{since: r.version}
	r.Members[user] = m
	r.Seats.Put(user, seat)
	r.began++
	r.checkRush()
	return m
}

// reseat replays that a member gets another seat. The change has only the new one.
func (r *Room) reseat(e *Entry, c *Change) {
	says1 := says(theEntry, "%s gets seat %d", quoted(c.User), c.Seat)
	if _, there := r.Seats.Of[c.User]; !there {
		if r.complete || r.gone[c.User] {
			r.report(RuleAbsent, e.Version, says1, says(before, "%s is not in the room", quoted(c.User)))
			return
		}
		// The member was there from the beginning, on an unknown seat.
		r.Members[c.User] = &Member{since: e.Version}
		r.began++
		r.checkRush()
	}
	if !r.Seats.Reseat(c.User, c.Seat) && r.complete {
		r.report(RuleSeat, e.Version, says1, says(before, "nobody has left that seat for another"))
	}
	if !r.complete {
		r.taken[c.Seat] = e.Version
	}
	if r.settings != nil && r.settings.Beyond(c.Seat) {
		r.report(RuleCapacity, e.Version, says1, says(before, "the room has %d seats", r.settings.Capacity))
	}
}
