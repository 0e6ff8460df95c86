package check

import (
	"cmp"
	"slices"
)

// luggage is the private data of users who are moved, which they take along from one room to the other.
type luggage struct {
	dealt   map[hand]bool  // what somebody set, or tried to, in any room
	taken   map[int]string // by the operation by which they leave: what they had
	arrived []arrival
}

// hand is private data of a user.
type hand struct{ user, data string }

func newLuggage(h *History) *luggage {
	l := &luggage{dealt: make(map[hand]bool), taken: make(map[int]string)}
	for _, op := range h.Ops {
		switch op.Action {
		case SetPrivate:
			l.dealt[hand{op.Process, op.Value}] = true
		case Deal:
			for _, user := range op.Users {
				l.dealt[hand{user, op.Value}] = true
			}
		}
	}
	return l
}

// arrival is a user in the room to which it was moved.
type arrival struct {
	op          *Op
	before, now string // its private data there
}

// pack notes what the users of a move have when they leave, or how they arrive, in the commit that has made s from a
// room in which the private data were before.
func (l *luggage) pack(op *Op, e *Entry, before map[string]string, s *state) {
	switch op.Action {
	case MoveOut:
		for _, user := range op.Users {
			if slices.ContainsFunc(e.Changes, func(c Change) bool { return c.Type == "leave" && c.User == user }) &&
				before[user] != "" {
				l.taken[op.ID] = before[user]
			}
		}
	case MoveIn:
		now := s.private()
		for _, user := range op.Users {
			l.arrived = append(l.arrived, arrival{op, before[user], now[user]})
		}
	}
}

// judge reports who has lost its private data on the way. Who was there already, with some of its own, keeps those.
func (l *luggage) judge(v *Verdict) {
	told := 0
	for _, a := range l.arrived {
		had, some := l.taken[a.op.Left]
		if !some || a.now == had || a.now != "" && a.now == a.before {
			continue
		}
		if told++; told <= mostViolations {
			v.Violations = append(v.Violations, Violation{Checker: "witness", Rule: "private", Room: a.op.Room,
				At:   a.op.Return,
				Text: a.op.String() + ": it left with the private data " + had + ", and has " + cmp.Or(a.now, "none")})
		}
	}
}
