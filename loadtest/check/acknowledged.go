package check

import (
	"fmt"

	"roomd/loadtest/internal/model"
)

// do applies an acknowledged operation. It returns why the operation is impossible, or "".
func (r *room) do(op *Op) string {
	switch op.Action {
	case Join, Match:
		return r.join(op)
	case Swap:
		return r.swap(op.Users)
	case Shuffle:
		r.unseat()
		r.seatsAt = op.Version
	case Configure:
		r.settings, r.knowsSettings, r.settingsAt = *op.Settings, r.settingsAt != op.Version, op.Version
	case Close:
		r.close(op.Version)
	case Kick, Release, MoveOut:
		return r.remove(op)
	case Deal:
		for _, user := range op.Users {
			if !r.possible(user) {
				return fmt.Sprintf("%q is no member to whom could be dealt", user)
			}
		}
	case Reserve, MoveIn:
		for _, user := range op.Users {
			if !r.certain(user) {
				r.put(user, status{seat: -1, loose: true})
			}
		}
	default:
		return r.act(op)
	}
	return ""
}

// close removes all members, except those who may have joined after that in the same version.
func (r *room) close(version uint64) {
	r.settings.Closed, r.knowsSettings, r.settingsAt = true, r.knowsSettings && r.settingsAt != version, version
	before := r.members
	r.left += len(before)
	r.members, r.wild = map[string]status{}, false
	for user, m := range before {
		if m.since == version {
			r.put(user, status{seat: -1, loose: true})
		}
	}
}

func (r *room) remove(op *Op) string {
	for _, user := range op.Users {
		if op.Action == MoveOut && !r.possible(user) {
			return fmt.Sprintf("%q is no member who could be moved", user)
		}
		if r.members[user].since == op.Version {
			r.put(user, status{seat: -1, loose: true})
			continue
		}
		r.drop(user)
		r.dropped = with(r.dropped, user, true)
	}
	return ""
}

// act applies an operation that only a member may do.
func (r *room) act(op *Op) string {
	if !r.possible(op.Process) {
		return fmt.Sprintf("%q is no member", op.Process)
	}
	if op.Action == Leave {
		r.drop(op.Process)
		return ""
	}
	m, known := r.members[op.Process]
	if !known {
		m = status{seat: -1}
	}
	m.loose, m.out = false, false
	if !r.dropped[op.Process] {
		r.put(op.Process, m)
	}
	if op.Action == SetData {
		return r.setData(op)
	}
	return ""
}

func (r *room) setData(op *Op) string {
	other := op.InEpoch != "" && op.InEpoch != r.epoch
	if op.Expect != nil && (other || r.knowsData && r.dataAt > *op.Expect && r.dataAt != op.Version) {
		return fmt.Sprintf("it expected that nobody had set the data since version %d, and version %d did", *op.Expect,
			r.dataAt)
	}
	if r.knowsData && r.dataAt == op.Version {
		r.also = with(r.also, r.data, true)
	} else {
		r.also, r.former = nil, r.data
	}
	r.data, r.dataAt, r.knowsData = op.Value, op.Version, true
	return ""
}

// swap applies an acknowledged exchange of two members' seats.
func (r *room) swap(users []string) string {
	for _, user := range users {
		if !r.possible(user) {
			return fmt.Sprintf("%q is no member who could change places", user)
		}
	}
	a, b := r.members[users[0]], r.members[users[1]]
	if !r.certain(users[0]) || !r.certain(users[1]) || r.seatsAt == r.version {
		a.seat, b.seat = -1, -1
	}
	r.seatsAt = r.version
	for i, seat := range []int{b.seat, a.seat} {
		if m, known := r.members[users[i]]; known {
			r.put(users[i], status{seat: seat, loose: m.loose})
		}
	}
	return ""
}

func (r *room) join(op *Op) string {
	user, returns := op.Process, r.possible(op.Process)
	shuffled := r.seatsAt == op.Version
	if m, known := r.members[user]; known && r.certain(user) && m.seat >= 0 && m.seat != op.Seat && !shuffled {
		return fmt.Sprintf("%q sits on seat %d already", user, m.seat)
	}
	certain := 0
	for other, m := range r.members {
		if other == user || m.out {
			continue
		}
		if r.certain(other) {
			certain++
		}
		if m.seat == op.Seat && !shuffled {
			if r.certain(other) {
				return fmt.Sprintf("%q sits on seat %d", other, op.Seat)
			}
			r.drop(other)
		}
	}
	limits := model.Settings{Capacity: r.settings.Capacity, Closed: r.settings.Closed}
	if r.knowsSettings && !r.maySettings && !returns && r.settingsAt != op.Version {
		switch {
		case limits.Closed:
			return "the room is closed"
		case limits.Beyond(op.Seat):
			return fmt.Sprintf("there are %d seats", r.settings.Capacity)
		}
		if limits.Over(certain+1) > 0 {
			return fmt.Sprintf("%d members fill the %d seats", certain, r.settings.Capacity)
		}
	}
	m := status{seat: op.Seat, since: op.Version, loose: r.dropped[user]}
	if shuffled {
		m.seat = -1
	}
	r.put(user, m)
	return ""
}
