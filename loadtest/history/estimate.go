package history

import "slices"

// estimate is a room's list as the replay believes it to be at a version, with all that
// it does not know for certain.
type estimate struct {
	roster   roster
	drift    fingerprint // what the list that was seen has more than roster
	unsure   bool        // drift may be the work of unknown outcomes
	tainted  bool        // a reported fault may show in the next print
	pool     pool
	last     map[string]action // what each user was seen to do last
	changed  int               // how many changes the replay has applied
	busy     map[string]bool   // users with an action in this step that no client saw
	capacity int
	top      int // highest seat in any message
	tries    int // left for search
}

// action is what a user did last, and when.
type action struct {
	join    bool
	version uint64
}

// apply applies one change and returns what cannot be right about it. In a lenient
// place, where a commit may be missing before it, apply assumes that an unknown request
// was committed if only that makes the change possible.
func (s *estimate) apply(c Change, v uint64, lenient bool) (faults []fault) {
	s.last[c.User] = action{c.Type == Join, v}
	s.changed++
	if lenient && s.explain(c, v) {
		return nil
	}
	faults = s.roster.apply(c, s.capacity)
	for _, f := range faults {
		s.tainted = s.tainted || f.blurs()
	}
	return faults
}

// settle applies a change that moves nobody.
func (s *estimate) settle(c storedChange) {
	user := c.user.Value()
	_, there := s.roster.Of[user]
	switch {
	case there && c.kind == memberState:
		said := c.detail()
		s.roster.become(user, s.roster.states[user].after(&said))
	case there && c.kind == reseat:
		s.roster.reseat(user, int(c.seat))
	}
}

// settleLast gives the members the state that they have after all of these changes, whose
// moves are applied.
func (s *estimate) settleLast(all changes) {
	last := make(map[string]state)
	for _, c := range all {
		switch c.kind {
		case reseat:
			s.settle(c)
		case memberState:
			said, user := c.detail(), c.user.Value()
			was, known := last[user]
			if !known {
				was = s.roster.states[user]
			}
			last[user] = was.after(&said)
		case moves:
			last[c.user.Value()] = state{}
		}
	}
	for user, said := range last {
		if _, there := s.roster.Of[user]; there {
			s.roster.become(user, said)
		}
	}
}

// explain makes the change possible with unknown requests, if there are such, and
// reports whether the change needs nothing more.
func (s *estimate) explain(c Change, v uint64) bool {
	s.busy[c.User] = true
	_, there := s.roster.Of[c.User]
	if c.Type == Leave {
		if there || !s.pool.use(c.User, Join, v) {
			return false
		}
		// Nobody knows which seat is free again, or whether the next list that was
		// seen still had it taken.
		s.tainted = s.tainted || s.unsure
		s.changed++
		return true
	}
	if there && s.pool.use(c.User, Leave, v) {
		s.vacate(c.User)
	}
	if other, taken := s.roster.At[c.Seat]; taken && other != c.User && s.pool.use(other, Leave, v) {
		s.vacate(other)
		s.last[other] = action{false, v}
	}
	return false
}

// vacate removes a user who left unseen. A list that was accepted since then did not
// have the user any more.
func (s *estimate) vacate(user string) {
	total := s.total()
	s.busy[user] = true
	s.changed++
	s.roster.drop(user)
	if s.unsure {
		s.accept(total)
	}
}

// arrive adds a user who joined unseen. A list that was accepted since then had the
// user already.
func (s *estimate) arrive(user string, seat int, v uint64) {
	total := s.total()
	s.adopt([]Change{{Type: Join, User: user, Seat: seat}}, v)
	if s.unsure {
		s.accept(total)
	}
}

// adopt assumes that unknown requests were committed: all leaves, then all joins, for a
// seat may have passed from one user to another.
func (s *estimate) adopt(committed []Change, v uint64) {
	s.changed += len(committed)
	for _, c := range committed {
		s.busy[c.User] = true
		if s.pool.use(c.User, c.Type, v); c.Type == Leave {
			s.roster.drop(c.User)
			s.last[c.User] = action{false, v}
		}
	}
	for _, c := range committed {
		if c.Type == Join {
			s.roster.put(c.User, c.Seat)
			s.last[c.User] = action{true, v}
		}
	}
}

// credit removes from the unknown requests those changes that were seen and that nobody
// got an acknowledgement of.
func (s *estimate) credit(done changes, acks []storedAck, v uint64) {
	if len(s.pool) == 0 {
		return
	}
	for _, c := range done {
		acked := slices.ContainsFunc(acks, func(a storedAck) bool { return a.user == c.user && a.join == c.join })
		if !acked {
			s.pool.use(c.user.Value(), c.change().Type, v)
		}
	}
}

// creditAways removes from what is unknown that users were away or back, where it was seen.
func (s *estimate) creditAways(done changes, v uint64) {
	for _, c := range done {
		switch c.kind {
		case away:
			s.pool.use(c.user.Value(), Away, v)
		case back:
			s.pool.use(c.user.Value(), Back, v)
		}
	}
}

// believe notes the acknowledgements of a version with more than one history. So nobody
// counts as a phantom whom the other history put into the list.
func (s *estimate) believe(acks []storedAck) {
	for _, a := range acks {
		s.last[a.user.Value()] = action{a.join, a.version}
	}
}

// accept makes the list that was seen the true one, so that one difference is not found
// again at each later version.
func (s *estimate) accept(seen fingerprint) {
	s.drift = fingerprint{seen.sum - s.roster.print.sum, seen.count - s.roster.print.count}
}

// total returns the fingerprint that the list must have.
func (s *estimate) total() fingerprint {
	return fingerprint{s.roster.print.sum + s.drift.sum, s.roster.print.count + s.drift.count}
}

// leadsTo reports whether the changes make the list that was seen at their end. Those
// that cannot be made do not: the sum then counts a user twice.
func (s *estimate) leadsTo(rest changes, end fingerprint) bool {
	now, moved := s.total(), make(map[string]int)
	for _, c := range rest {
		user := c.user.Value()
		if c.join {
			moved[user] = int(c.seat)
			now = now.with(user, int(c.seat))
			continue
		}
		seat, ok := moved[user]
		if !ok {
			seat = s.roster.Of[user]
		}
		now = now.without(user, seat)
	}
	return now == end
}

// undoOne looks for one action without which the list is the one that was seen, undoes
// it and returns it: the join of anybody in the room, or the leave of one in left.
func (s *estimate) undoOne(seen fingerprint, left []Member) (undone Change, found bool) {
	now := s.total()
	for user, seat := range s.roster.Of {
		if now.without(user, seat) == seen {
			s.roster.drop(user)
			return Change{Type: Join, User: user, Seat: seat}, true
		}
	}
	for _, m := range left {
		if _, there := s.roster.Of[m.User]; !there && now.with(m.User, m.Seat) == seen {
			s.roster.put(m.User, m.Seat)
			return Change{Type: Leave, User: m.User, Seat: m.Seat}, true
		}
	}
	return Change{}, false
}
