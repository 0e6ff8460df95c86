package audit

import (
	"cmp"
	"strings"

	"roomd/loadtest/internal/model"
)

// join replays that a user came in.
func (o *oracle) join(e *entry, c *change) {
	says1 := says(theEntry, "%s joins on seat %d", quoted(c.User), c.Seat)
	for _, b := range o.seats.Join(c.User, c.Seat) {
		if b.Rule == model.AlreadyIn {
			o.find(RuleJoin, e.Version, says1, says(before, "%s", o.sitting(c.User)))
			o.remove(c.User)
		} else {
			o.find(RuleSeat, e.Version, says1, says(before, "%s", o.sitting(b.Other)))
		}
	}
	if (model.Settings{}).Beyond(c.Seat) {
		o.find(RuleCapacity, e.Version, says1, says("the rules", "seats are from 0 to %d", model.MaxSeats-1))
	}
	o.checkBan(c.User, sighting{e.Version, c.At}, o.bans[c.User])
	m := &member{since: e.Version, session: c.Session, node: cmp.Or(c.Of, e.Node), at: c.At, readyKnown: true, data: dataState{known: true}, private: dataState{known: true}}
	o.put(c.User, c.Seat, m)
	o.more++
	o.admit(e, c, says1)
	delete(o.gone, c.User)
	delete(o.removals, c.User)
	if !o.complete {
		o.taken[c.Seat] = e.Version
		if _, known := o.came[c.User]; !known {
			o.came[c.User] = sighting{e.Version, c.At}
		}
	}
}

// admit judges a join by the settings, if they are known.
func (o *oracle) admit(e *entry, c *change, says1 Side) {
	if c.Again {
		o.bringBack(e, c, says1)
	}
	if o.settings == nil {
		if !c.Again {
			o.early.joins = e.Version
		}
		if o.more > o.early.more {
			o.early.more, o.early.moreAt = o.more, e.Version
		}
		if c.Seat > o.early.seat {
			o.early.seat, o.early.seatAt = c.Seat, e.Version
		}
		return
	}
	for _, b := range o.settings.Join(c.Seat) {
		switch {
		case b.Rule == model.NoSuchSeat:
			o.find(RuleCapacity, e.Version, says1, says(before, "the room has %d seats", o.settings.Capacity))
		case !c.Again:
			o.find(RuleClosed, e.Version, says1, says(before, "settings %s", value(o.settings.text)))
		}
	}
	if over := o.settings.Over(o.more); over > o.rush.over {
		o.rush.over, o.rush.version = over, e.Version
	}
	o.checkRush()
}

// checkBan reports a join before the user's ban is over. Ban and join are of the same clock,
// that of a node, or of two which are in step.
func (o *oracle) checkBan(user string, join sighting, until int64) {
	if model.Banned(join.at, until) {
		o.find(RuleBanned, join.version, says(theJournal, "%s joins at %d", quoted(user), join.at), says("the ban", "lasts until %d", until))
	}
}

// bringBack judges a join that brings back a session which had lost its place in a failure, since a
// closed room lets it in: the user must have been in the room, and nobody may have taken the user out.
// Who was never seen there was in a room that Redis has lost with its journal.
func (o *oracle) bringBack(e *entry, c *change, says1 Side) {
	removed, by := o.removals[c.User]
	if !by {
		removed, by = o.removals[everybody]
	}
	switch {
	case by && !(removed.Reason == reasonMoved && isReserved(c.Session)): // a move that was undone
		o.find(RuleClosed, e.Version, says1, says(before, "%s was taken out at version %d: %s", quoted(c.User), removed.Version, quoted(removed.Reason)))
	case o.complete && !o.gone[c.User] && !o.anew:
		o.anew = true
		o.renewals++
	}
}

// leave replays that a user left.
func (o *oracle) leave(e *entry, c *change) {
	if o.present(c) == nil {
		return
	}
	o.remove(c.User)
	o.more--
	o.gone[c.User] = true
	switch c.Reason {
	case reasonKicked, reasonMoved:
		o.takeOut(c.User, removal{e.Version, c.Reason, c.Text, c.Target})
	}
}

// speak replays that another session, or the same one in another state, speaks for a member.
func (o *oracle) speak(e *entry, c *change) {
	m := o.present(c)
	if m == nil {
		return
	}
	isAway, wasAway := strings.HasPrefix(c.Session, "~"), strings.HasPrefix(c.Old, "~")
	fits := c.Session != "" && c.Old != ""
	switch c.Type {
	case typeAway:
		fits = fits && !wasAway && c.Session == "~"+c.Old
	case typeBack:
		fits = fits && wasAway && !isAway
	case typeReplace: // of one who is there, or of one reservation by another
		fits = fits && (!wasAway && !isAway || isReserved(c.Old) && isReserved(c.Session))
	}
	if !fits || m.session != "" && c.Old != m.session {
		o.find(RuleSession, e.Version, says(theEntry, "%s of %s from session %s to %s", c.Type, quoted(c.User), quoted(c.Old), quoted(c.Session)),
			says(before, "session %s speaks for %s", quoted(m.session), quoted(c.User)))
	}
	m.session, m.orNode = c.Session, ""
	if c.Type == typeAway && m.node != e.Node { // a member who goes away keeps the node's name, which may be its last
		m.orNode = m.node
		if m.node == "" {
			m.orNode = anyNode
		}
	}
	m.node = e.Node
}

// isReserved reports whether a session is none yet, but keeps a seat for one.
func isReserved(session string) bool { return strings.HasPrefix(session, "~+") }

// anyNode stands for a node that is not known.
const anyNode = "*"

// present returns the member that a change is about. If the change is the first to mention the
// user, the member was in from the beginning.
func (o *oracle) present(c *change) *member {
	b, wrong := o.seats.Change(c.User, c.Seat)
	says1 := func() Side { return says(theEntry, "%s of %s on seat %d", c.Type, quoted(c.User), c.Seat) }
	switch {
	case wrong && b.Rule == model.NotIn && (o.complete || o.gone[c.User]):
		o.find(RuleAbsent, o.version, says1(), says(before, "%s is not in the room", quoted(c.User)))
		return nil
	case wrong && b.Rule == model.NotIn:
		return o.infer(c.User, c.Seat)
	case wrong:
		o.find(RuleMoved, o.version, says1(), says(before, "%s", o.sitting(c.User)))
	}
	return o.members[c.User]
}

// infer concludes that a user who is mentioned for the first time was a member from the
// beginning, on that seat.
func (o *oracle) infer(user string, seat int) *member {
	here := says(theJournal, "%s was on seat %d when it began, as version %d shows", quoted(user), seat, o.version)
	if other, taken := o.seats.At[seat]; taken {
		o.find(RuleSeat, o.version, here, says(theJournal, "%s", o.sitting(other)))
	} else if version, taken := o.taken[seat]; taken {
		o.find(RuleSeat, version, here, says(theJournal, "another user had seat %d, as version %d shows", seat, version))
	}
	o.taken[seat] = o.version
	m := &member{since: o.version}
	o.put(user, seat, m)
	o.began++
	o.checkRush()
	return m
}

func (s *state) put(user string, seat int, m *member) {
	s.members[user] = m
	s.seats.Put(user, seat)
}

func (s *state) remove(user string) {
	delete(s.members, user)
	s.seats.Drop(user)
}

// reseat replays that a member has got another seat. The change says only the new one.
func (o *oracle) reseat(e *entry, c *change) {
	says1 := says(theEntry, "%s gets seat %d", quoted(c.User), c.Seat)
	if _, there := o.seats.Of[c.User]; !there {
		if o.complete || o.gone[c.User] {
			o.find(RuleAbsent, e.Version, says1, says(before, "%s is not in the room", quoted(c.User)))
			return
		}
		// The member was there from the beginning, on a seat that nobody knows.
		o.members[c.User] = &member{since: e.Version}
		o.began++
		o.checkRush()
	}
	o.seats.Reseat(c.User, c.Seat)
	if !o.complete {
		o.taken[c.Seat] = e.Version
	}
	if o.settings != nil && o.settings.Beyond(c.Seat) {
		o.find(RuleCapacity, e.Version, says1, says(before, "the room has %d seats", o.settings.Capacity))
	}
}

// checkDisplaced reports who has still the seat that an entry has given to another one.
func (o *oracle) checkDisplaced(e *entry) {
	for _, other := range o.seats.Settle() {
		seat := o.seats.Of[other]
		o.find(RuleSeat, e.Version, says(theEntry, "%s gets seat %d", quoted(o.seats.At[seat]), seat), says(before, "%s", o.sitting(other)))
	}
}
