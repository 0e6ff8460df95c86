package history

import "fmt"

// roster is a room's list as a client or the replay believes it to be.
type roster struct {
	seats map[string]int // user to seat
	owner map[int]string // seat to the user who was there first
	print fingerprint    // of seats
	top   int            // highest seat there ever was

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
	return roster{seats: make(map[string]int), owner: make(map[int]string), away: make(map[string]bool), states: make(map[string]state)}
}

// set replaces the roster by the users and returns what is wrong with them as a list.
func (r *roster) set(users []Member, capacity int) (faults []fault) {
	clear(r.seats)
	clear(r.owner)
	clear(r.away)
	clear(r.states)
	r.print, r.absent, r.state = fingerprint{}, 0, 0
	for _, m := range users {
		if _, there := r.seats[m.User]; there {
			faults = append(faults, fault{Duplicate, m.User, true, m.User + " is in the list twice"})
			continue
		}
		if f, wrong := r.clash(m.User, m.Seat); wrong {
			faults = append(faults, f)
		}
		r.put(m.User, m.Seat)
		r.turn(m.User, m.Away)
		r.become(m.User, state{m.Ready, m.Data})
	}
	if capacity > 0 && len(users) > capacity {
		faults = append(faults, oversold(len(users), capacity))
	}
	return faults
}

// apply applies a committed change and returns what cannot be right about it. It
// allocates nothing if all is well.
func (r *roster) apply(c Change, capacity int) (faults []fault) {
	seat, there := r.seats[c.User]
	switch {
	case c.Type == Settings || c.Type == RoomData || c.Type == Said:
		return nil
	case c.Type == Away || c.Type == Back:
		return r.comeOrGo(c, there)
	case c.Type == MemberState:
		return r.declare(c, there)
	case c.Type == Leave && !there:
		return []fault{{Phantom, c.User, false, c.User + " left without being there"}}
	case c.Type == Leave:
		r.drop(c.User)
		return nil
	case c.Type != Join:
		return []fault{{Diverged, c.User, false, fmt.Sprintf("%s did %q, which is no change", c.User, c.Type)}}
	case there:
		faults = append(faults, fault{Duplicate, c.User, false,
			fmt.Sprintf("%s joined on seat %d while on seat %d already", c.User, c.Seat, seat)})
		r.drop(c.User)
	}
	if f, wrong := r.clash(c.User, c.Seat); wrong {
		faults = append(faults, f)
	}
	r.put(c.User, c.Seat)
	r.turn(c.User, c.Away)
	if capacity > 0 && len(r.seats) > capacity {
		faults = append(faults, oversold(len(r.seats), capacity))
	}
	return faults
}

// comeOrGo applies an Away or a Back.
func (r *roster) comeOrGo(c Change, there bool) []fault {
	away := c.Type == Away
	was, known := r.away[c.User]
	switch {
	case !there:
		return []fault{{Phantom, c.User, false, fmt.Sprintf("%s is %s without being in the room", c.User, c.Type)}}
	case r.seats[c.User] != c.Seat:
		return []fault{{Diverged, c.User, false, fmt.Sprintf("%s is %s on seat %d, and sits on seat %d", c.User, c.Type, c.Seat, r.seats[c.User])}}
	case known && was == away:
		return []fault{{Diverged, c.User, false, fmt.Sprintf("%s is %s a second time", c.User, c.Type)}}
	}
	r.turn(c.User, away)
	return nil
}

// declare applies a MemberState.
func (r *roster) declare(c Change, there bool) []fault {
	if seat := r.seats[c.User]; !there {
		return []fault{{Phantom, c.User, false, c.User + " has a state without being in the room"}}
	} else if seat != c.Seat {
		return []fault{{Diverged, c.User, false, fmt.Sprintf("%s has a state on seat %d, and sits on seat %d", c.User, c.Seat, seat)}}
	}
	r.become(c.User, state{c.Ready, c.Data})
	return nil
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

// put seats a user who is not there.
func (r *roster) put(user string, seat int) {
	r.seats[user] = seat
	if _, taken := r.owner[seat]; !taken {
		r.owner[seat] = user
	}
	r.print = r.print.with(user, seat)
	r.top = max(r.top, seat)
}

// drop removes a user who is there.
func (r *roster) drop(user string) {
	seat := r.seats[user]
	r.turn(user, false)
	r.become(user, state{})
	delete(r.seats, user)
	delete(r.away, user)
	if r.owner[seat] == user {
		delete(r.owner, seat)
	}
	r.print = r.print.without(user, seat)
}

func (r *roster) clash(user string, seat int) (fault, bool) {
	other, taken := r.owner[seat]
	if !taken || other == user {
		return fault{}, false
	}
	first, second := min(user, other), max(user, other)
	return fault{SeatClash, fmt.Sprintf("%d %s %s", seat, first, second), true,
		fmt.Sprintf("%s and %s are both on seat %d", first, second, seat)}, true
}

func oversold(count, capacity int) fault {
	return fault{Oversold, fmt.Sprint(count), true, fmt.Sprintf("%d users in a room for %d", count, capacity)}
}
