package model

import (
	"cmp"
	"maps"
	"slices"
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
	if c.Again && r.renewed && r.mayBeIn(c.User) {
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
// members. Policies other than these two are not judged.
func (r *Room) checkHost(e *Entry) {
	if r.settings == nil {
		return
	}
	policy := says("the settings", "host %s", quoted(r.settings.host))
	switch host := r.host; r.settings.host {
	case "none":
		if host.user != "" {
			r.report(RuleHost, e.Version, says(theJournal, "the host is %s", quoted(host.user)), policy)
		}
		r.host = hostState{known: true}
	case "longest":
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

func (o *ending) compareHost() {
	host, there, ok := read[string](o, RuleHost, "host")
	if !ok {
		return
	}
	policy := "none"
	if o.settings != nil {
		policy = o.settings.host
	}
	_, in := o.Users[host]
	switch {
	case o.host.known && o.host.user != host:
		o.differs(RuleHost, there, "the host is %s", quoted(o.host.user))
	case host != "" && (policy == "none" || policy == "longest" && !in), host == "" && policy == "longest" &&
		len(o.Users) > 0:
		o.find(RuleHost, o.version, says("the settings", "host %s", quoted(policy)), there)
	}
}

// MaxSeats is the number of seats of a room without a capacity.
const MaxSeats = 1 << 16

// Seats maps members and seats. Only Put, Drop and Reseat change it.
type Seats struct {
	Of map[string]int // user to seat
	At map[int]string // seat to its first user

	displaced map[string]int   // in this commit: users whose seat another member got, with that seat
	given     map[int]struct{} // in this commit: seats that members left for other seats
}

// NewSeats returns the seats of an empty room.
func NewSeats() Seats {
	return Seats{make(map[string]int), make(map[int]string), make(map[string]int), make(map[int]struct{})}
}

// Put seats a new member.
func (s *Seats) Put(user string, seat int) {
	s.Of[user] = seat
	if _, taken := s.At[seat]; !taken {
		s.At[seat] = user
	}
}

// Drop removes a member, and returns the seat.
func (s *Seats) Drop(user string) (seat int, there bool) {
	if seat, there = s.Of[user]; there {
		delete(s.Of, user)
		if s.At[seat] == user {
			delete(s.At, seat)
		}
	}
	return seat, there
}

// Reseat gives a member another seat. The member on that seat has to get another one in the same commit; see
// Settle. Reseat reports whether the seat was another member's, as it must be: members exchange seats, and
// nobody gets a free one.
func (s *Seats) Reseat(user string, seat int) (fits bool) {
	if was, there := s.Drop(user); there {
		s.given[was] = struct{}{}
	}
	delete(s.displaced, user)
	if other := s.At[seat]; other != "" {
		s.displaced[other], fits = seat, true
	}
	if _, left := s.given[seat]; left {
		fits = true
	}
	s.Of[user], s.At[seat] = seat, user
	return fits
}

// Settle ends a commit. It returns the sorted names of members who are still on a seat that another member got.
func (s *Seats) Settle() (clashes []string) {
	for other, seat := range s.displaced {
		if is, there := s.Of[other]; there && is == seat {
			clashes = append(clashes, other)
		}
	}
	clear(s.displaced)
	clear(s.given)
	slices.Sort(clashes)
	return clashes
}

// Settings limit the members of a room. A Capacity of 0 sets no limit.
type Settings struct {
	Capacity int
	Closed   bool
}

// Beyond reports whether the room has no such seat.
func (s Settings) Beyond(seat int) bool {
	return seat < 0 || seat >= MaxSeats || s.Capacity > 0 && seat >= s.Capacity
}

// Over returns how many of that many members are too many; 0 or less if they have seats.
func (s Settings) Over(members int) int {
	limit := s.Capacity
	if limit == 0 {
		limit = MaxSeats
	}
	return members - limit
}

// setTimer is a timer in the journal.
type setTimer struct {
	Due     int64  `json:"due"` // 0 if it is not set
	Version uint64 `json:"version"`
}

// countdown replays that a timer was set or cancelled, or has fired. Only a timer that is set fires, and only once.
func (r *Room) countdown(e *Entry, c *Change) {
	if c.Timer == nil {
		r.report(RuleEntry, e.Version, says(theEntry, "%s of no timer", c.Type),
			says("this program", "cannot read that"))
		return
	}
	t := *c.Timer
	says1 := says(theEntry, "%s of %s, due at %d before and now at %d (0: none)", c.Type, quoted(t.Name), t.Was, t.Due)
	was, known := r.timers[t.Name]
	switch {
	case (known || r.complete) && !r.Told && was.Due != t.Was:
		r.report(RuleTimer, e.Version, says1, says(before, "it was due at %d", was.Due))
	case t.Was == 0 && t.Due == 0 && (!r.Told || was.Due == 0 && (known || r.complete)), c.Type == "timer" &&
		t.Due != 0:
		r.report(RuleTimer, e.Version, says1, says("the rules", "what is set can fire or be cancelled, once"))
	}
	r.timers[t.Name] = setTimer{t.Due, e.Version}
}

func (o *ending) compareTimers() {
	has, there, ok := read[struct {
		Version uint64              `json:"version"`
		Timers  map[string]setTimer `json:"timers"`
	}](o, RuleTimers, "timers")
	if !ok {
		return
	}
	last := uint64(0)
	for _, name := range slices.Sorted(maps.Keys(o.timers)) {
		made := o.timers[name]
		last = max(last, made.Version)
		if is := has.Timers[name]; is.Due != made.Due || made.Due != 0 && is.Version != made.Version {
			o.differs(RuleTimers, there, "%s is due at %d (0: none), set at version %d", quoted(name), made.Due,
				made.Version)
		}
	}
	if last > 0 && has.Version != last {
		o.differs(RuleTimers, there, "they were last changed at version %d", last)
	}
	for _, name := range slices.Sorted(maps.Keys(has.Timers)) {
		if _, mentioned := o.timers[name]; o.complete && !mentioned {
			o.differs(RuleTimers, there, "%s was never set", quoted(name))
		}
	}
}
