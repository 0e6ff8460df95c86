package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"roomd/loadtest/internal/model"
)

// state is a room at a version, replayed from its journal.
type state struct {
	*model.Room
	settings Settings
	public   bool // from events to watchers: without private data, bans and marks of returning members
	broken   []wrong
}

func newState(public bool) *state {
	s := &state{public: public}
	s.Room = model.NewRoom(true, func(rule model.Rule, _ uint64, one, other model.Side) {
		s.broken = append(s.broken, wrongf(cmp.Or(rules[rule], string(rule)), "%s: %s; %s: %s", one.Source, one.Says,
			other.Source, other.Says))
	})
	s.Told = true
	return s
}

// rules maps the replay's rules to the rules of violations.
var rules = map[model.Rule]string{
	model.RuleJoin: "twice", model.RuleTimer: "twice", model.RuleSeat: "seat", model.RuleMoved: "seat",
	model.RuleAbsent: "phantom", model.RuleCapacity: "oversold",
	model.RuleClosed: "closed", model.RuleBanned: "banned", model.RuleHost: "host", model.RuleSettings: "content",
}

// stateOf returns the public state in a list.
func stateOf(l *List) *state {
	s, e := newState(true), Entry{Changes: []Change{{Type: "settings", Settings: &l.Settings}}}
	for _, m := range l.Users {
		e.Changes = append(e.Changes, Change{Type: "join", User: m.User, Seat: m.Seat, Away: m.Away},
			Change{Type: "member", User: m.User, Seat: m.Seat, Ready: &m.Ready, Data: m.Data})
	}
	s.apply(&e)
	s.broken = nil // a list is no commit
	s.See(l.Data, l.Host, l.Timers)
	return s
}

// wrong is a broken rule with an explanation. The zero value means that all is well.
type wrong struct{ rule, text string }

func wrongf(rule, format string, args ...any) wrong { return wrong{rule, fmt.Sprintf(format, args...)} }

// apply applies an entry of a journal. It returns the rules that the entry breaks.
func (s *state) apply(e *Entry) (broken []wrong) {
	commit := model.Entry{Epoch: e.Epoch, Version: e.Version}
	for i := range e.Changes {
		commit.Changes = append(commit.Changes, s.change(&e.Changes[i]))
	}
	s.Commit(&commit)
	broken, s.broken = s.broken, nil
	return broken
}

// change converts a change for the replay.
func (s *state) change(c *Change) model.Change {
	m := model.Change{Type: c.Type, User: c.User, Seat: c.Seat, At: c.At, Ready: c.Ready, Until: c.Until,
		Again: c.Again}
	if c.Data != "" {
		m.Data = []byte(c.Data)
	}
	if c.Away {
		m.Session = "~"
	}
	if c.Settings != nil {
		s.settings = *c.Settings
		limits := s.settings
		limits.Closed = limits.Closed && !s.public
		m.Settings, _ = json.Marshal(limits)
	}
	if c.Name != "" {
		m.Timer = &model.Countdown{Name: c.Name}
		if c.Set {
			m.Timer.Due = 1
		}
	}
	return m
}

func (s *state) private() map[string]string {
	all := make(map[string]string)
	for user, m := range s.Members {
		if m.Private.Value != "" {
			all[user] = m.Private.Value
		}
	}
	return all
}

// differs describes how a list differs from this room; "" if it does not.
func (s *state) differs(l *List) string {
	if len(l.Users) != len(s.Members) {
		return fmt.Sprintf("it has %d members, %q, and there are %d, %q", len(l.Users), names(l.Users),
			len(s.Members), slices.Sorted(maps.Keys(s.Members)))
	}
	for _, m := range l.Users {
		is := Member{User: m.User}
		if known := s.Members[m.User]; known != nil {
			is = Member{m.User, s.Seats.Of[m.User], known.Away, known.Ready, known.Data.Value}
		}
		if is != m || s.Members[m.User] == nil {
			return fmt.Sprintf("it has the member %+v, and there is %+v", m, is)
		}
	}
	shown := s.private()
	if !l.All {
		maps.DeleteFunc(shown, func(user, _ string) bool { return user != l.For })
	}
	if !s.public && !maps.Equal(shown, l.Private) {
		return fmt.Sprintf("%q is shown the private data %v, and may see %v", l.For, l.Private, shown)
	}
	if l.Data != s.Data.Value {
		return fmt.Sprintf("it has the data %q, and there are %q", l.Data, s.Data.Value)
	}
	if l.Settings != s.settings {
		return fmt.Sprintf("it has the settings %+v, and there are %+v", l.Settings, s.settings)
	}
	if l.Host != s.Host() {
		return fmt.Sprintf("it has the host %q, and there is %q", l.Host, s.Host())
	}
	if set := s.Timers(); !slices.Equal(l.Timers, set) {
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

// lacks returns the effects of an acknowledged operation that are missing in its commit e, which made this room.
func (s *state) lacks(op *Op, e *Entry) wrong {
	has := func(is func(Change) bool) bool { return slices.ContainsFunc(e.Changes, is) }
	left := func(user string) bool { return s.Members[user] == nil || e.has("leave", user) }
	came := func(user string) bool { return s.Members[user] != nil || e.has("join", user) }
	told := func(kind, user string) bool {
		return has(func(c Change) bool { return c.Type == kind && c.Data == op.Value && c.User == user })
	}
	// A member's data ends with the membership. If the member leaves in the same version, the commit does not list it.
	gone := e.has("leave", op.Process)
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
		seat, in := s.Seats.Of[op.Process]
		moved := e.has("seat", op.Process) // later in the same version
		ok = in && (seat == op.Seat || moved) || gone
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
		ok = gone || told("member", op.Process)
	case SetPrivate:
		ok = gone || told("private", op.Process)
	case Deal:
		all(func(user string) bool { return told("private", user) })
	case Say:
		ok = has(func(c Change) bool { return c.Type == "message" && c.Text == op.Value && c.User == op.Process })
	case Ready:
		ok = gone || came(op.Process)
	case Configure:
		ok = s.settings == *op.Settings || has(func(c Change) bool {
			return c.Settings != nil && *c.Settings == *op.Settings
		})
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
		return wrongf("torn", "it was acknowledged, and its version %d has a part of it: %s", e.Version,
			changes(e.Changes))
	}
	return wrongf("lost", "it was acknowledged, and its version %d does not have it: %s", e.Version, changes(e.Changes))
}

// reseated reports whether a commit gave other seats to both users of a swap, or to all who were there before
// and after a shuffle.
func (s *state) reseated(op *Op, e *Entry) bool {
	users := op.Users
	if op.Action == Shuffle {
		users = slices.DeleteFunc(slices.Collect(maps.Keys(s.Members)),
			func(user string) bool { return e.has("join", user) })
		if len(users) < 2 {
			return true
		}
	}
	return !slices.ContainsFunc(users, func(user string) bool { return !e.has("seat", user) })
}

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

func same(a, b []Change) bool {
	return slices.EqualFunc(a, b, func(x, y Change) bool { return reflect.DeepEqual(x, y) })
}
