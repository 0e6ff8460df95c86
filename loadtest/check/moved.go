package check

import (
	"cmp"
	"slices"
)

// movedData tracks the private data that moved users carry from one room to another.
type movedData struct {
	dealt   map[hand]bool  // data that somebody set, or tried to, in any room
	taken   map[int]string // by the operation that left the old room: the user's data there
	arrived []arrival
}

// hand is private data of a user.
type hand struct{ user, data string }

func newMovedData(h *History) *movedData {
	l := &movedData{dealt: make(map[hand]bool), taken: make(map[int]string)}
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

// arrival is a moved user in the new room.
type arrival struct {
	op          *Op
	before, now string // its private data in the new room
}

// pack records the private data of moved users when they leave, or arrive. The commit e changed private data
// from before to s.
func (l *movedData) pack(op *Op, e *Entry, before map[string]string, s *state) {
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

// judge reports users who lost their private data by a move. A user who already had some in the new room keeps
// those.
func (l *movedData) judge(v *Verdict) {
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
