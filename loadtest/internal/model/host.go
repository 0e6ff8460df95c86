package model

import "cmp"

// The policies for choosing a host. Others are not judged.
const (
	hostNone    = "none"
	hostLongest = "longest"
)

// hostState is the host of a room.
type hostState struct {
	known bool
	user  string // "" for nobody
}

// appoint replays that a member becomes the host, or, without a user, that nobody is the host. Earlier changes
// of the entry may belong to the action that caused this.
func (r *Room) appoint(e *Entry, c *Change) {
	was := r.host
	r.host = hostState{known: true, user: c.User}
	if c.Again && r.since == e.Version && r.mayBeIn(c.User) {
		return // restores what Redis had lost
	}
	says1 := says(theEntry, "the host is %s", quoted(c.User))
	switch {
	case was.known && c.User != "" && r.Members[was.user] != nil:
		r.report(RuleHost, e.Version, says1, says(before, "the host %s, who is still there", quoted(was.user)))
	case c.User != "" && !r.mayBeIn(c.User):
		r.report(RuleHost, e.Version, says1, says(before, "%s is not in the room", quoted(c.User)))
	default:
		for user, m := range r.Members {
			if is := r.Members[c.User]; is != nil && m.sitsBefore(is, r.Seats.Of[user], r.Seats.Of[c.User]) {
				r.report(RuleHost, e.Version, says1,
					says(before, "%s, who has sat longer: since %d, and not since %d", r.sitting(user), m.at, is.at))
				return
			}
		}
	}
}

// mayBeIn reports whether a user may be a member.
func (r *Room) mayBeIn(user string) bool {
	return r.Members[user] != nil || !r.complete && !r.gone[user]
}

// sitsBefore reports whether m is known to become the host before other.
func (m *Member) sitsBefore(other *Member, seat, otherSeat int) bool {
	if m.session == "" || other.session == "" {
		return false
	}
	if m.Away != other.Away {
		return other.Away
	}
	return m.at != 0 && other.at != 0 && cmp.Or(cmp.Compare(m.at, other.at), cmp.Compare(seat, otherSeat)) < 0
}

// checkHost judges the host after an entry: if the settings say so, there is a host exactly while there are
// members.
func (r *Room) checkHost(e *Entry) {
	if r.settings == nil {
		return
	}
	policy := says("the settings", "host %s", quoted(r.settings.host))
	switch host := r.host; r.settings.host {
	case hostNone:
		if host.user != "" {
			r.report(RuleHost, e.Version, says(theJournal, "the host is %s", quoted(host.user)), policy)
		}
		r.host = hostState{known: true}
	case hostLongest:
		switch {
		case !host.known:
		case host.user == "" && len(r.Members) > 0:
			r.report(RuleHost, e.Version, says(theJournal, "%d members or more, and no host", len(r.Members)), policy)
			r.host = hostState{}
		case host.user != "" && !r.mayBeIn(host.user):
			r.report(RuleHost, e.Version, says(theJournal, "the host %s is not in the room", quoted(host.user)), policy)
			r.host = hostState{}
		}
	}
}

// compareHost judges the host in Redis.
func (o *ending) compareHost() {
	host, there, ok := read[string](o, RuleHost, "host")
	if !ok {
		return
	}
	policy := hostNone
	if o.settings != nil {
		policy = o.settings.host
	}
	_, in := o.Users[host]
	switch {
	case o.host.known && o.host.user != host:
		o.find(RuleHost, o.version, says(theJournal, "the host is %s", quoted(o.host.user)), there)
	case host != "" && (policy == hostNone || policy == hostLongest && !in), host == "" && policy == hostLongest &&
		len(o.Users) > 0:
		o.find(RuleHost, o.version, says("the settings", "host %s", quoted(policy)), there)
	}
}
