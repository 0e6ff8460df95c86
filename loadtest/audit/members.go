package audit

import "strings"

// join replays that a user came in.
func (o *oracle) join(e *entry, c *change) {
	says1 := says(theEntry, "%s joins on seat %d", quoted(c.User), c.Seat)
	if m := o.members[c.User]; m != nil {
		o.find(RuleJoin, e.Version, says1, says(before, "%s", sitting(c.User, m.seat, m.since)))
		o.remove(c.User)
	}
	if other, taken := o.seats[c.Seat]; taken {
		o.find(RuleSeat, e.Version, says1, says(before, "%s", sitting(other, c.Seat, o.members[other].since)))
	}
	if c.Seat < 0 || c.Seat >= maxSeats {
		o.find(RuleCapacity, e.Version, says1, says("the rules", "seats are from 0 to %d", maxSeats-1))
	}
	o.checkBan(c.User, sighting{e.Version, c.At}, o.bans[c.User])
	m := &member{seat: c.Seat, since: e.Version, session: c.Session, node: e.Node, at: c.At, data: dataState{known: true}}
	o.put(c.User, m)
	o.more++
	if !o.complete {
		delete(o.gone, c.User)
		o.taken[c.Seat] = e.Version
		if _, known := o.came[c.User]; !known {
			o.came[c.User] = sighting{e.Version, c.At}
		}
	}
	o.admit(e, c, says1)
}

// admit judges a join by the settings, if they are known.
func (o *oracle) admit(e *entry, c *change, says1 Side) {
	if o.settings == nil {
		o.early.joins = e.Version
		if o.more > o.early.more {
			o.early.more, o.early.moreAt = o.more, e.Version
		}
		if c.Seat > o.early.seat {
			o.early.seat, o.early.seatAt = c.Seat, e.Version
		}
		return
	}
	if o.settings.closed {
		o.find(RuleClosed, e.Version, says1, says(before, "settings %s", value(o.settings.text)))
	}
	if c.Seat >= o.settings.seats {
		o.find(RuleCapacity, e.Version, says1, says(before, "the room has %d seats", o.settings.seats))
	}
	if over := o.more - o.settings.seats; over > o.rush.over {
		o.rush.over, o.rush.version = over, e.Version
	}
	o.checkRush()
}

// checkBan reports a join before the user's ban is over. Ban and join are of the same clock,
// that of a node, or of two which are in step.
func (o *oracle) checkBan(user string, join sighting, until int64) {
	if join.at < until {
		o.find(RuleBanned, join.version, says(theJournal, "%s joins at %d", quoted(user), join.at), says("the ban", "lasts until %d", until))
	}
}

// leave replays that a user left.
func (o *oracle) leave(c *change) {
	if o.present(c) == nil {
		return
	}
	o.remove(c.User)
	o.more--
	if !o.complete {
		o.gone[c.User] = true
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
	case typeReplace:
		fits = fits && !wasAway && !isAway
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

// anyNode stands for a node that is not known.
const anyNode = "*"

// present returns the member that a change is about. If the change is the first to mention the
// user, the member was in from the beginning.
func (o *oracle) present(c *change) *member {
	m := o.members[c.User]
	switch {
	case m == nil && (o.complete || o.gone[c.User]):
		o.find(RuleAbsent, o.version, says(theEntry, "%s of %s on seat %d", c.Type, quoted(c.User), c.Seat),
			says(before, "%s is not in the room", quoted(c.User)))
		return nil
	case m == nil:
		m = o.infer(c.User, c.Seat)
	case m.seat != c.Seat:
		o.find(RuleMoved, o.version, says(theEntry, "%s of %s on seat %d", c.Type, quoted(c.User), c.Seat),
			says(before, "%s", sitting(c.User, m.seat, m.since)))
	}
	return m
}

// infer concludes that a user who is mentioned for the first time was a member from the
// beginning, on that seat.
func (o *oracle) infer(user string, seat int) *member {
	here := says(theJournal, "%s was on seat %d when it began, as version %d shows", quoted(user), seat, o.version)
	if other, taken := o.seats[seat]; taken {
		o.find(RuleSeat, o.version, here, says(theJournal, "%s", sitting(other, seat, o.members[other].since)))
	} else if version, taken := o.taken[seat]; taken {
		o.find(RuleSeat, version, here, says(theJournal, "another user had seat %d, as version %d shows", seat, version))
	}
	o.taken[seat] = o.version
	m := &member{seat: seat, since: o.version}
	o.put(user, m)
	o.began++
	o.checkRush()
	return m
}

func (o *oracle) put(user string, m *member) {
	o.members[user] = m
	o.seats[m.seat] = user
}

func (o *oracle) remove(user string) {
	if m := o.members[user]; m != nil {
		delete(o.members, user)
		if o.seats[m.seat] == user {
			delete(o.seats, m.seat)
		}
	}
}
