package history

import (
	"fmt"

	"roomd/loadtest/internal/model"
)

// roster is a room's list as a client or the replay believes it to be.
type roster struct {
	model.Seats
	print fingerprint // of the seats
	top   int         // highest seat there ever was

	away   map[string]bool  // of members of whom that is known
	absent uint64           // sum over the members who are away
	states map[string]state // of members with another than the zero state
	state  uint64           // sum over states
}

// state is what a member said of itself.
type state struct {
	ready bool
	data  string
}

// fault is a mistake that a roster finds in a change or a list.
type fault struct {
	kind    Kind
	subject string
	lasting bool // it stays at later versions; see place
	text    string
}

// blurs reports whether the fault leaves the server's list unknown.
func (f fault) blurs() bool { return f.kind != SeatClash && f.kind != Oversold }

func newRoster() roster {
	return roster{Seats: model.NewSeats(), away: make(map[string]bool), states: make(map[string]state)}
}

// set replaces the roster by the users and returns what is wrong with them as a list.
func (r *roster) set(users []Member, capacity int) (faults []fault) {
	r.Clear()
	clear(r.away)
	clear(r.states)
	r.print, r.absent, r.state = fingerprint{}, 0, 0
	for _, m := range users {
		if _, there := r.Of[m.User]; there {
			faults = append(faults, fault{Duplicate, m.User, true, m.User + " is in the list twice"})
			continue
		}
		faults = append(faults, r.joins(m.User, m.Seat)...)
		r.put(m.User, m.Seat)
		r.turn(m.User, m.Away)
		r.become(m.User, state{m.Ready, m.Data})
	}
	return append(faults, overCapacity(len(users), capacity)...)
}

// apply applies a committed change and returns what cannot be right about it. It
// allocates nothing if all is well.
func (r *roster) apply(c Change, capacity int) (faults []fault) {
	_, there := r.Of[c.User]
	switch {
	case c.Type == Settings || c.Type == RoomData || c.Type == Countdown || c.Type == Fired || c.Type == HostIs || c.Type == Said:
		return nil
	case c.Type == Away || c.Type == Back || c.Type == MemberState:
		return r.concerns(c)
	case c.Type == Seated && !there:
		return []fault{{Phantom, c.User, false, c.User + " got another seat without being in the room"}}
	case c.Type == Seated:
		if !r.reseat(c.User, c.Seat) {
			return []fault{{Diverged, c.User, false, fmt.Sprintf("%s changes to seat %d, which nobody has left for another", c.User, c.Seat)}}
		}
		return nil
	case c.Type == Leave && !there:
		return []fault{{Phantom, c.User, false, c.User + " left without being there"}}
	case c.Type == Leave:
		r.drop(c.User)
		return nil
	case c.Type != Join:
		return []fault{{Diverged, c.User, false, fmt.Sprintf("%s did %q, which is no change", c.User, c.Type)}}
	}
	faults = r.joins(c.User, c.Seat)
	if there {
		r.drop(c.User)
	}
	r.put(c.User, c.Seat)
	r.turn(c.User, c.Away)
	return append(faults, overCapacity(len(r.Of), capacity)...)
}

// joins returns what is wrong about a user who comes in on a seat.
func (r *roster) joins(user string, seat int) (faults []fault) {
	for _, b := range r.Join(user, seat) {
		if b.Rule == model.AlreadyIn {
			faults = append(faults, fault{Duplicate, user, false, fmt.Sprintf("%s joined on seat %d while on seat %d already", user, seat, b.Seat)})
			continue
		}
		first, second := min(user, b.Other), max(user, b.Other)
		faults = append(faults, fault{SeatClash, fmt.Sprintf("%d %s %s", seat, first, second), true,
			fmt.Sprintf("%s and %s are both on seat %d", first, second, seat)})
	}
	return faults
}

// concerns applies an Away, a Back or a MemberState.
func (r *roster) concerns(c Change) []fault {
	what := "is " + c.Type
	if c.Type == MemberState {
		what = "has a state"
	}
	if b, wrong := r.Change(c.User, c.Seat); wrong && b.Rule == model.NotIn {
		return []fault{{Phantom, c.User, false, fmt.Sprintf("%s %s without being in the room", c.User, what)}}
	} else if wrong {
		return []fault{{Diverged, c.User, false, fmt.Sprintf("%s %s on seat %d, and sits on seat %d", c.User, what, c.Seat, b.Seat)}}
	}
	if c.Type == MemberState {
		r.become(c.User, r.states[c.User].after(&c.Detail))
		return nil
	}
	away := c.Type == Away
	if was, known := r.away[c.User]; known && was == away {
		return []fault{{Diverged, c.User, false, fmt.Sprintf("%s %s a second time", c.User, what)}}
	}
	r.turn(c.User, away)
	return nil
}

// after returns the state when a MemberState has said something of it.
func (s state) after(said *Detail) state {
	if said.Part != SetMember {
		s.ready = said.Ready
	}
	if said.Part != SetReady {
		s.data = said.Data
	}
	return s
}

// turn notes whether a member is away.
func (r *roster) turn(user string, away bool) {
	if was := r.away[user]; was != away {
		if away {
			r.absent += placeHash(user, -1)
		} else {
			r.absent -= placeHash(user, -1)
		}
	}
	r.away[user] = away
}

// become gives a member a state.
func (r *roster) become(user string, s state) {
	if was, ok := r.states[user]; ok {
		r.state -= was.hash(user)
		delete(r.states, user)
	}
	if s != (state{}) {
		r.state += s.hash(user)
		r.states[user] = s
	}
}

func (s state) hash(user string) uint64 {
	ready := -2
	if s.ready {
		ready = -3
	}
	return placeHash(user+"\x00"+s.data, ready)
}

// reseat gives a member another seat, and reports whether members changed places.
func (r *roster) reseat(user string, seat int) bool {
	r.print = r.print.without(user, r.Of[user]).with(user, seat)
	r.top = max(r.top, seat)
	return r.Reseat(user, seat)
}

// settled returns what is wrong about the seats after all changes of an event.
func (r *roster) settled() (faults []fault) {
	for _, other := range r.Settle() {
		seat := r.Of[other]
		first, second := min(other, r.At[seat]), max(other, r.At[seat])
		faults = append(faults, fault{SeatClash, fmt.Sprintf("%d %s %s", seat, first, second), true,
			fmt.Sprintf("%s and %s are both on seat %d", first, second, seat)})
	}
	return faults
}

// put seats a user who is not there.
func (r *roster) put(user string, seat int) {
	r.Put(user, seat)
	r.print = r.print.with(user, seat)
	r.top = max(r.top, seat)
}

// drop removes a user who is there.
func (r *roster) drop(user string) {
	r.turn(user, false)
	r.become(user, state{})
	delete(r.away, user)
	if seat, there := r.Drop(user); there {
		r.print = r.print.without(user, seat)
	}
}

// overCapacity returns that there are too many members, if there are.
func overCapacity(count, capacity int) []fault {
	if (model.Settings{Capacity: capacity}).Over(count) <= 0 {
		return nil
	}
	return []fault{{Oversold, fmt.Sprint(count), true, fmt.Sprintf("%d users in a room for %d", count, capacity)}}
}
