package check

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"roomd/loadtest/internal/model"
)

// state is a room at a version, as its journal makes it.
type state struct {
	members  map[string]Member
	seats    model.Seats
	private  map[string]string
	data     string
	settings Settings
	host     string
	timers   map[string]bool  // that are set
	bans     map[string]int64 // until when
	public   bool             // it is what watchers know: no private data, no bans, and nobody knows who comes back
}

func newState() *state {
	return &state{
		members: make(map[string]Member), private: make(map[string]string), seats: model.NewSeats(), timers: make(map[string]bool), bans: make(map[string]int64),
	}
}

// stateOf returns what a list says that all may know.
func stateOf(l *List) *state {
	s := newState()
	s.public = true
	for _, m := range l.Users {
		s.members[m.User] = m
		s.seats.Put(m.User, m.Seat)
	}
	s.data, s.settings, s.host = l.Data, l.Settings, l.Host
	for _, name := range l.Timers {
		s.timers[name] = true
	}
	return s
}

// wrong is a rule that is broken, and how; the zero value is that all is well.
type wrong struct{ rule, text string }

func wrongf(rule, format string, args ...any) wrong { return wrong{rule, fmt.Sprintf(format, args...)} }

// join does what a journal says of who comes in.
func (s *state) join(c Change) (broken wrong) {
	limits := model.Settings{Capacity: s.settings.Capacity, Closed: s.settings.Closed && !c.Again && !s.public}
	for _, b := range append(s.seats.Join(c.User, c.Seat), limits.Join(c.Seat)...) {
		switch b.Rule {
		case model.AlreadyIn:
			broken = wrongf("twice", "%q joins on seat %d, and is on seat %d", c.User, c.Seat, b.Seat)
		case model.SeatTaken:
			broken = wrongf("seat", "%q joins on seat %d, where %q is", c.User, c.Seat, b.Other)
		case model.Closed:
			broken = wrongf("closed", "%q joins, and the room is closed", c.User)
		case model.NoSuchSeat:
			broken = wrongf("oversold", "%q joins on seat %d, and there are %d", c.User, c.Seat, s.settings.Capacity)
		}
	}
	if model.Banned(c.At, s.bans[c.User]) && c.At > 0 {
		broken = wrongf("banned", "%q joins at %d ms, and is banned until %d", c.User, c.At, s.bans[c.User])
	}
	s.seats.Drop(c.User)
	s.seats.Put(c.User, c.Seat)
	s.members[c.User] = Member{User: c.User, Seat: c.Seat, Away: c.Away}
	return broken
}

// apply does what a journal says. It returns what is wrong about that.
func (s *state) apply(c Change) (broken wrong) {
	switch c.Type {
	case "join":
		return s.join(c)
	case "data":
		s.data = c.Data
		return wrong{}
	case "settings", "defaults":
		if c.Settings != nil {
			s.settings = *c.Settings
		}
		if (model.Settings{Capacity: s.settings.Capacity}).Over(len(s.members)) > 0 {
			return wrongf("oversold", "%d members get %d seats", len(s.members), s.settings.Capacity)
		}
		return wrong{}
	case "host":
		s.host = c.User
		return wrong{}
	case "timer", "countdown":
		if set := s.timers[c.Name]; !set && !c.Set {
			broken = wrongf("twice", "%s of %s, which is not set: it has fired before, or was cancelled", c.Type, c.Name)
		}
		if delete(s.timers, c.Name); c.Set {
			s.timers[c.Name] = true
		}
		return broken
	case "ban":
		s.bans[c.User] = c.Until
		return wrong{}
	}
	if changeClasses[c.Type] == ofMember {
		return s.change(c)
	}
	return wrong{}
}

// change does what a journal says of a member.
func (s *state) change(c Change) (broken wrong) {
	m, in := s.members[c.User]
	if !in {
		return wrongf("phantom", "%s of %q, who is not there", c.Type, c.User)
	}
	switch c.Type {
	case "seat":
		if !s.seats.Reseat(c.User, c.Seat) {
			broken = wrongf("seat", "%q changes to seat %d, which nobody has left for another", c.User, c.Seat)
		}
		if broken == (wrong{}) && (model.Settings{Capacity: s.settings.Capacity}).Beyond(c.Seat) {
			broken = wrongf("oversold", "%q changes to seat %d, and there are %d", c.User, c.Seat, s.settings.Capacity)
		}
		m.Seat = c.Seat
	case "leave":
		s.seats.Drop(c.User)
		delete(s.members, c.User)
		delete(s.private, c.User)
		return wrong{}
	case "private":
		if s.private[c.User] = c.Data; c.Data == "null" {
			delete(s.private, c.User)
		}
		return wrong{}
	case "away", "back":
		m.Away = c.Type == "away"
	case "replace": // of who is there by another session, or of who is awaited by another move
	case "member":
		if c.Ready != nil {
			m.Ready = *c.Ready
		}
		if c.Data != "" {
			m.Data = c.Data
		}
	}
	s.members[c.User] = m
	return broken
}

// settle ends a commit. It returns what is wrong about the room behind it.
func (s *state) settle() (broken []wrong) {
	for _, user := range s.seats.Settle() {
		broken = append(broken, wrongf("seat", "%q and %q are on seat %d", user, s.seats.At[s.seats.Of[user]], s.seats.Of[user]))
	}
	_, in := s.members[s.host]
	if s.settings.Host != Longest && s.host != "" || s.settings.Host == Longest && in != (len(s.members) > 0) || s.host != "" && !in {
		broken = append(broken, wrongf("host", "the host is %q, and there are %d members, %q; the settings say %q",
			s.host, len(s.members), slices.Sorted(maps.Keys(s.members)), s.settings.Host))
	}
	return broken
}

// differs says in what a list is not this room, "" if it is.
func (s *state) differs(l *List) string {
	if len(l.Users) != len(s.members) {
		return fmt.Sprintf("it has %d members, %q, and there are %d, %q", len(l.Users), names(l.Users), len(s.members), slices.Sorted(maps.Keys(s.members)))
	}
	for _, m := range l.Users {
		if is, in := s.members[m.User]; !in || is != m {
			return fmt.Sprintf("it has the member %+v, and there is %+v", m, is)
		}
	}
	shown := make(map[string]string)
	if own, has := s.private[l.For]; has {
		shown[l.For] = own
	}
	if l.All {
		shown = s.private
	}
	if !s.public && !maps.Equal(shown, l.Private) {
		return fmt.Sprintf("%q is shown the private data %v, and may see %v", l.For, l.Private, shown)
	}
	if l.Data != s.data {
		return fmt.Sprintf("it has the data %q, and there are %q", l.Data, s.data)
	}
	if l.Settings != s.settings {
		return fmt.Sprintf("it has the settings %+v, and there are %+v", l.Settings, s.settings)
	}
	if l.Host != s.host {
		return fmt.Sprintf("it has the host %q, and there is %q", l.Host, s.host)
	}
	if set := slices.Sorted(maps.Keys(s.timers)); !slices.Equal(l.Timers, set) {
		return fmt.Sprintf("it has the timers %q, and there are %q", l.Timers, set)
	}
	return ""
}

func names(users []Member) []string {
	list := make([]string, len(users))
	for i, m := range users {
		list[i] = m.User
	}
	slices.Sort(list)
	return list
}

// lacks says what of an acknowledged operation is missing in its commit, which has made this room.
func (s *state) lacks(op *Op, e *Entry) wrong {
	has := func(is func(Change) bool) bool { return slices.ContainsFunc(e.Changes, is) }
	left := func(user string) bool {
		_, in := s.members[user]
		return !in || has(func(c Change) bool { return c.Type == "leave" && c.User == user })
	}
	came := func(user string) bool {
		_, in := s.members[user]
		return in || has(func(c Change) bool { return c.Type == "join" && c.User == user })
	}
	// What is a member's goes with it, and is not told where it leaves in the same version.
	gone := has(func(c Change) bool { return c.Type == "leave" && c.User == op.Process })
	dealt := func(user string) bool {
		return has(func(c Change) bool { return c.Type == "private" && c.Data == op.Value && c.User == user })
	}
	if op.matches() && (s.settings.Labels != op.Settings.Labels || e.Version == 1 && s.settings != *op.Settings) {
		return wrongf("match", "it asked for %+v, and the room has %+v", *op.Settings, s.settings)
	}
	ok, part := true, false
	all := func(done func(string) bool) {
		n := len(slices.DeleteFunc(slices.Clone(op.Users), done))
		ok, part = n == 0, n > 0 && n < len(op.Users)
	}
	switch op.Action {
	case Join, Match:
		m, in := s.members[op.Process]
		moved := has(func(c Change) bool { return c.Type == "seat" && c.User == op.Process }) // behind it, in the same version
		ok = in && (m.Seat == op.Seat || moved) || gone
	case SetTimer:
		ok = has(func(c Change) bool {
			return c.Type == "countdown" && c.Set && c.Name == op.Name && c.User == op.Process
		})
	case Swap, Shuffle:
		ok = s.reseated(op, e)
	case Leave:
		ok = gone
	case SetData:
		ok = has(func(c Change) bool { return c.Type == "data" && c.Data == op.Value })
	case SetMember:
		ok = gone || has(func(c Change) bool { return c.Type == "member" && c.Data == op.Value && c.User == op.Process })
	case SetPrivate:
		ok = gone || has(func(c Change) bool { return c.Type == "private" && c.Data == op.Value && c.User == op.Process })
	case Deal:
		all(dealt)
	case Say:
		ok = has(func(c Change) bool { return c.Type == "message" && c.Text == op.Value && c.User == op.Process })
	case Ready:
		ok = gone || came(op.Process)
	case Configure:
		ok = s.settings == *op.Settings || has(func(c Change) bool { return c.Settings != nil && *c.Settings == *op.Settings })
	case Close:
		ok = s.settings.Closed || has(func(c Change) bool { return c.Settings != nil && c.Settings.Closed })
	case Kick, Release, MoveOut:
		all(left)
	case Reserve, MoveIn:
		all(came)
	}
	switch {
	case ok:
		return wrong{}
	case part:
		return wrongf("torn", "it was acknowledged, and its version %d has a part of it: %s", e.Version, changes(e.Changes))
	}
	return wrongf("lost", "it was acknowledged, and its version %d does not have it: %s", e.Version, changes(e.Changes))
}

// reseated reports whether a commit gave other seats to those who swapped theirs, or to all who were there before and behind a
// shuffle.
func (s *state) reseated(op *Op, e *Entry) bool {
	changed := func(user string, types ...string) bool {
		return slices.ContainsFunc(e.Changes, func(c Change) bool { return c.User == user && slices.Contains(types, c.Type) })
	}
	users := op.Users
	if op.Action == Shuffle {
		users = slices.DeleteFunc(slices.Collect(maps.Keys(s.members)), func(user string) bool { return changed(user, "join") })
		if len(users) < 2 {
			return true
		}
	}
	return !slices.ContainsFunc(users, func(user string) bool { return !changed(user, "seat") })
}

// changes describes changes in a line.
func changes(list []Change) string {
	text := "["
	for i, c := range list {
		if i > 0 {
			text += ", "
		}
		text += c.Type
		if c.User != "" {
			text += fmt.Sprintf(" %q seat %d", c.User, c.Seat)
		}
		for _, word := range []string{c.Reason, c.Data, c.Text, c.Name} {
			if word != "" {
				text += " " + word
			}
		}
	}
	return text + "]"
}

// same reports whether two lists of changes are the same.
func same(a, b []Change) bool {
	return slices.EqualFunc(a, b, func(x, y Change) bool { return reflect.DeepEqual(x, y) })
}
