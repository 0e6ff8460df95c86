package history

import "slices"

// checkGroups looks for the party or the move by which each reserved seat was taken, and by
// which each user was moved, and whether all of the group was. Of a group whose request was
// acknowledged each user is checked by the acknowledgement. The replay is behind s.
func (p *replay) checkGroups(s seen, certain bool) {
	for _, c := range s.changes {
		if said := c.detail(); c.join && said.Away {
			p.checkGroup(c.user.Value(), s, certain, []string{Reserve, MoveIn}, "")
		} else if c.kind == moves && !c.join && said.Reason == Moved {
			p.checkGroup(c.user.Value(), s, certain, []string{MoveOut}, said.Target)
		}
	}
}

func (p *replay) checkGroup(user string, s seen, certain bool, actions []string, target string) {
	is := func(q *Request) bool {
		return slices.Contains(actions, q.Action) && q.has(user) && (target == "" || q.Target == target)
	}
	for _, a := range p.log.requestsIn(s.span) {
		if is(&a.Request) {
			return
		}
	}
	var torn []Member
	for i := range p.room.unanswered {
		if u := &p.room.unanswered[i]; u.after < s.to && is(&u.Request) {
			if !certain || p.isWhole(&u.Request) {
				return
			}
			torn = u.Users
		}
	}
	for i := range p.room.refused {
		if q := &p.room.refused[i]; is(q) && torn == nil {
			torn = q.Users
		}
	}
	switch {
	case torn != nil:
		p.found(Torn, s.to, user, "of %d users of a group, which came or left together or not at all, %s did, and not all", len(torn), user)
	case target == "":
		p.found(Phantom, s.to, user, "%s got a seat that nobody asked for", user)
	}
}

// isWhole reports whether all of a group are in the room now, or have left it. Who is a member
// before keeps the seat.
func (p *replay) isWhole(q *Request) bool {
	return !slices.ContainsFunc(q.Users, func(m Member) bool {
		_, there := p.list.roster.Of[m.User]
		return there == (q.Action == MoveOut)
	})
}

// checkMoves checks that whoever was moved out of a room came into the other one.
func (l *Ledger) checkMoves(rooms map[string]*roomLog, final map[string]RoomState) {
	came := make(map[string]*arrivals)
	for name, r := range rooms {
		came[name] = r.arrivals(final[name])
	}
	for _, r := range rooms {
		for _, e := range r.epochs {
			for _, s := range e.commits() {
				for _, c := range s.changes {
					said, user := c.detail(), c.user.Value()
					if c.kind == moves && !c.join && said.Reason == Moved && !came[said.Target].mayHave(user) {
						r.found(Torn, e.name, s.to, user, "%s was moved to room %s, and never came there", user, said.Target)
					}
				}
			}
		}
	}
}

// arrivals are the users who ever came into a room.
type arrivals struct {
	users map[string]bool
	more  bool // others may have come unseen
}

func (a *arrivals) mayHave(user string) bool { return a != nil && (a.more || a.users[user]) }

// mayHaveJoined reports whether anybody may have joined unseen.
func (r *roomLog) mayHaveJoined() bool {
	return slices.ContainsFunc(r.unknowns, func(u unknown) bool { return u.action == Join })
}

func (r *roomLog) arrivals(final RoomState) *arrivals {
	r.mu.Lock()
	defer r.mu.Unlock()
	came := &arrivals{users: make(map[string]bool), more: len(r.epochs) > 1 || r.mayHaveJoined()}
	for _, m := range final.Users {
		came.users[m.User] = true
	}
	for _, e := range r.epochs {
		covered := e.start
		for _, s := range e.commits() {
			came.more = came.more || s.from > covered
			covered = max(covered, s.to)
			for _, c := range s.changes {
				if c.join {
					came.users[c.user.Value()] = true
				}
			}
		}
		for _, m := range e.users {
			came.users[m.User] = true
		}
		for _, a := range e.acks {
			came.more = came.more || a.version > covered
			if a.join {
				came.users[a.user.Value()] = true
			}
		}
		came.more = came.more || final.Version > covered
	}
	return came
}
