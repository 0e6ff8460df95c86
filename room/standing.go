package room

import "strings"

// Standing is what a session knows of its place in a room: that it spoke for its user at a
// version, or, if Out, that it had lost the place at that version and no other session of
// the user had it. Make one with [Standing.Joined] from one with User and Session.
type Standing struct {
	User, Session string
	Node          string // the node's name under which the session joined
	Epoch         string
	Version       uint64
	Out           bool

	// outSince is the version at which the session was out before it was brought back at
	// Version; 0 if it was not brought back.
	outSince uint64
}

// Fate is what became of a session's place.
type Fate int

const (
	// Unchanged: nothing newer is known.
	Unchanged Fate = iota
	// Speaks: the session speaks for its user.
	Speaks
	// Replaced: a newer session of the user speaks for it, or did until it left.
	Replaced
	// Removed: the session has lost its place, and no other one of the user has it: its
	// node was believed dead, or Redis has lost the room. Or the user's seat is reserved again.
	Removed
	// Ended: the user is not in the room any more, and is not to be brought back: somebody with
	// authority has removed the user, or a newer session has come and left. [Event.LeaveOf] may
	// tell which.
	Ended
	// Doubtful: the event is older than what the session knows, and contradicts it.
	Doubtful
)

// Joined returns the standing of a session after its join with result r.
func (s Standing) Joined(r Result) Standing {
	next := Standing{User: s.User, Session: s.Session, Node: r.Node, Epoch: r.Epoch, Version: r.Version}
	if s.Out && s.Epoch == r.Epoch {
		next.outSince = s.Version
	}
	return next
}

// Missing returns what became of a session whose user was not in the room when an action
// was refused with r, and its standing then. With Unchanged the events up to r say more.
func (s Standing) Missing(r Result) (Fate, Standing) {
	if s.Epoch == r.Epoch && s.Version <= r.Version {
		return Unchanged, s
	}
	return Removed, s.out(r.Epoch, r.Version)
}

// Overtook reports whether e is older than the join that brought the session back. If e
// means Replaced all the same, a newer session had come and left in between.
func (s Standing) Overtook(e *Event) bool {
	return s.outSince > 0 && e.Epoch == s.Epoch && e.Version <= s.Version
}

func (s Standing) out(epoch string, version uint64) Standing {
	return Standing{User: s.User, Session: s.Session, Node: s.Node, Epoch: epoch, Version: version, Out: true}
}

// After returns what e says became of the session, and its standing then.
//
// Within an epoch a user leaves a room only by a commit: a leave of this session, of which
// its connection knows; a leave of a newer session, which has replaced this one before; or
// the removal of the members of a node that was believed dead. Events show which it was. A
// snapshot that stands for missed events does not; but a node's members are not removed
// before its lease and the grace are over, so until then a user who is missing was replaced
// and has left. A new epoch means that the room was lost.
//
// If the node was cut off for longer than that and missed the events, nobody can tell; then
// the session counts as Removed.
func (s Standing) After(e *Event) (Fate, Standing) {
	var fate Fate
	switch {
	case e.Snapshot != nil:
		fate = s.inSnapshot(e)
	case e.commit != nil:
		fate = s.inChanges(e)
	}
	switch fate {
	case Speaks:
		s = Standing{User: s.User, Session: s.Session, Node: s.Node, Epoch: e.Epoch, Version: e.Version}
		if m, ok := e.members[s.User]; ok {
			s.Node = m.Node
		} else if e.commit != nil && !e.isAway(s.User) {
			s.Node = e.commit.Node
		}
	case Removed, Ended:
		s = s.out(e.Epoch, e.Version)
	}
	return fate, s
}

func (s Standing) inSnapshot(e *Event) Fate {
	m, in := e.members[s.User]
	mine := in && s.is(m.Session)
	switch {
	case e.Epoch == s.Epoch && e.Version < s.Version:
		if mine || s.Out {
			return Unchanged
		}
		return Doubtful
	case mine:
		return Speaks
	case in && m.Reserved(): // for whichever session joins first
		return Removed
	case in:
		return Replaced
	}
	if g, ok := e.Snapshot.Gone(s.User); ok && (e.Epoch != s.Epoch || s.Out || g.Version > s.Version) {
		return Ended
	}
	if e.Epoch != s.Epoch || s.Out {
		return Removed
	}
	switch fate := s.inMissed(e); {
	case fate == Replaced, fate == Ended:
		return fate
	case e.keeps(s.Node):
		return Ended
	}
	return Removed
}

// inMissed returns what the events for which a snapshot stands say became of the session.
func (s Standing) inMissed(e *Event) (fate Fate) {
	for _, missed := range e.missed {
		if f := s.inChanges(missed); f != Unchanged && fate != Replaced {
			fate = f
		}
	}
	return fate
}

func (s Standing) inChanges(e *Event) Fate {
	known := e.Epoch == s.Epoch && e.Version <= s.Version
	switch {
	case known && (s.outSince == 0 || e.Version <= s.outSince):
		return Unchanged
	case e.Epoch != s.Epoch && e.Version > 1:
		return Unchanged // late, of an earlier epoch: a later one begins with a snapshot
	}
	fate := Unchanged
	if e.Epoch != s.Epoch {
		fate = Removed // the room begins anew, with these alone
	}
	for i := range e.commit.Updates {
		switch c := &e.commit.Updates[i]; {
		case c.User != s.User || !c.OfMember():
		case c.Type == KindMember: // only the session that speaks for the user does that
		case c.Type != KindLeave && s.is(c.Session):
			fate = Speaks
		case fate != Replaced && strings.HasPrefix(c.Session, reserved): // for whichever session joins first
			fate = Removed
		case c.Type != KindLeave:
			fate = Replaced
		case fate != Replaced && c.Reason == ReasonNode:
			fate = Removed
		case fate != Replaced:
			fate = Ended
		}
	}
	if known && fate != Replaced {
		return Unchanged
	}
	return fate
}

// is reports whether a member's session is this one, detached or not.
func (s Standing) is(session string) bool { return strings.TrimPrefix(session, detached) == s.Session }

// Gone returns why a user who is not in the room was taken out of it, if the room remembers that.
func (s Snapshot) Gone(user string) (g Gone, found bool) {
	if s.state == nil {
		return g, false
	}
	return s.state.gone.of(user)
}
