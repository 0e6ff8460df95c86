package check

import (
	"fmt"
	"slices"
)

// refusals has a function for each code of a refusal that can be judged. It returns why the reason is wrong, or
// "". Other codes do not depend on the room.
var refusals = map[string]func(r *room, op *Op) string{
	"not_member": func(r *room, op *Op) string {
		if slices.Contains([]string{Leave, SetData, SetMember, SetPrivate, Ready, SetTimer}, op.Action) &&
			r.certain(op.Process) {
			return fmt.Sprintf("%q is a member", op.Process)
		}
		return ""
	},
	"closed": func(r *room, op *Op) string {
		if op.Action != MoveOut && r.knowsSettings && !r.maySettings && !r.settings.Closed {
			return "the room is not closed"
		}
		return ""
	},
	"room_full": func(r *room, op *Op) string {
		if op.Action != MoveOut { // the refusal is about the other room
			return r.full(max(1, len(op.Users)))
		}
		return ""
	},
	"seat_taken": func(r *room, op *Op) string {
		if op.Asked == nil || r.storms > 0 || r.wild || len(r.shaken) > 0 || len(r.halves) > 0 {
			return ""
		}
		for _, m := range r.members {
			if m.seat == *op.Asked || m.seat < 0 {
				return ""
			}
		}
		return fmt.Sprintf("nobody sits on seat %d", *op.Asked)
	},
	"conflict": (*room).conflict,
}

// refuse judges a refused operation: the reason must be true.
func (r *room) refuse(op *Op) string {
	if judge := refusals[op.Code]; judge != nil {
		return judge(r, op)
	}
	return ""
}

// within returns the room for an operation that was refused between the operations of this version: members
// that left may have been there, and the settings may have been older.
func (r *room) within() *room {
	n := *r
	n.maySettings = n.maySettings || r.settingsAt == r.version
	n.wild = n.wild || r.left > 0 || len(r.dropped) > 0
	return &n
}

// full judges that there were no seats for so many more.
func (r *room) full(more int) string {
	if !r.knowsSettings || r.maySettings || r.storms > 0 || r.wild {
		return ""
	}
	possible := len(r.shaken) + len(r.halves)
	for _, m := range r.members {
		if !m.out {
			possible++
		}
	}
	if r.settings.Capacity == 0 || possible+more <= r.settings.Capacity {
		return fmt.Sprintf("%d members at most are in a room of %d seats", possible, r.settings.Capacity)
	}
	return ""
}

// conflict judges a refused compare-and-set.
func (r *room) conflict(op *Op) string {
	if op.Action != SetData || op.Expect == nil {
		return ""
	}
	// It may have come before, between or after the operations of that version.
	if r.dataAt != op.Version || op.Now != r.data && !r.also[op.Now] && op.Now != r.former {
		if wrong := r.seenData(op.Now); wrong != "" {
			return wrong
		}
	}
	if (op.InEpoch == "" || op.InEpoch == r.epoch) && r.knowsData && r.dataAt <= *op.Expect && len(r.mayData) == 0 &&
		r.dataAt > 0 {
		return fmt.Sprintf("it expected that nobody had set the data since version %d, and nobody has since version %d", *op.Expect, r.dataAt)
	}
	return ""
}
