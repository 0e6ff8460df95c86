package room

import "strings"

// Membership is what a session knows of its membership: that it was the active session of its user
// at a version, or, if Out, that the user was no member at that version, by this session or by
// another. Make one with [Membership.Joined] from one with User and Session.
type Membership struct {
	User, Session string
	Node          string // the node's name under which the session joined
	Epoch         string
	Version       uint64
	Out           bool

	// outSince is the version at which the session was out before it was brought back at
	// Version; 0 if it was not brought back.
	outSince uint64
}

// Outcome is what became of a session's membership.
type Outcome int

const (
	// unchanged: nothing newer is known.
	unchanged Outcome = iota
	// Active: the session is the active one of its user.
	Active
	// Replaced: a newer session of the user is the active one, or was until it left.
	Replaced
	// Removed: the user is no member any more, by this session or by another: the session's
	// node was believed dead, or Redis has lost the room. Or the user's seat is reserved again.
	Removed
	// Ended: the user is not in the room any more, and is not to be brought back: somebody with
	// authority has removed the user, or a newer session has come and left. [Event.LeaveOf] may
	// tell which.
	Ended
	// Doubtful: the event is older than what the session knows, and contradicts it.
	Doubtful
)

// Joined returns the membership of a session after its join with result r.
func (s Membership) Joined(r Result) Membership {
	next := Membership{User: s.User, Session: s.Session, Node: r.Node, Epoch: r.Epoch, Version: r.Version}
	if s.Out && s.Epoch == r.Epoch {
		next.outSince = s.Version
	}
	return next
}

// Missing returns what became of a session whose user was not in the room when an action
// was refused with r, and its membership then. With unchanged the events up to r say more.
func (s Membership) Missing(r Result) (Outcome, Membership) {
	if s.Epoch == r.Epoch && s.Version <= r.Version {
		return unchanged, s
	}
	return Removed, s.out(r.Epoch, r.Version)
}

// Overtook reports whether e is older than the join that brought the session back. If e
// means Replaced all the same, a newer session had come and left in between.
func (s Membership) Overtook(e *Event) bool {
	return s.outSince > 0 && e.Epoch == s.Epoch && e.Version <= s.Version
}

func (s Membership) out(epoch string, version uint64) Membership {
	return Membership{User: s.User, Session: s.Session, Node: s.Node, Epoch: epoch, Version: version, Out: true}
}

// After returns what e says became of the session, and its membership then.
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
func (s Membership) After(e *Event) (Outcome, Membership) {
	var outcome Outcome
	switch {
	case e.Snapshot != nil:
		outcome = s.inSnapshot(e)
	case e.commit != nil:
		outcome = s.inChanges(e)
	}
	switch outcome {
	case Active:
		s = Membership{User: s.User, Session: s.Session, Node: s.Node, Epoch: e.Epoch, Version: e.Version}
		if m, ok := e.members[s.User]; ok {
			s.Node = m.Node
		} else if e.commit != nil && !e.isAway(s.User) {
			s.Node = e.commit.Node
		}
	case Removed, Ended:
		s = s.out(e.Epoch, e.Version)
	}
	return outcome, s
}

func (s Membership) inSnapshot(e *Event) Outcome {
	m, in := e.members[s.User]
	mine := in && s.is(m.Session)
	switch {
	case e.Epoch == s.Epoch && e.Version < s.Version:
		if mine || s.Out {
			return unchanged
		}
		return Doubtful
	case mine:
		return Active
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
	switch outcome := s.inMissed(e); {
	case outcome == Replaced, outcome == Ended:
		return outcome
	case e.keeps(s.Node):
		return Ended
	}
	return Removed
}

// inMissed returns what the events for which a snapshot stands say became of the session.
func (s Membership) inMissed(e *Event) (outcome Outcome) {
	for _, missed := range e.missed {
		if f := s.inChanges(missed); f != unchanged && outcome != Replaced {
			outcome = f
		}
	}
	return outcome
}

func (s Membership) inChanges(e *Event) Outcome {
	known := e.Epoch == s.Epoch && e.Version <= s.Version
	switch {
	case known && (s.outSince == 0 || e.Version <= s.outSince):
		return unchanged
	case e.Epoch != s.Epoch && e.Version > 1:
		return unchanged // late, of an earlier epoch: a later one begins with a snapshot
	}
	outcome := unchanged
	if e.Epoch != s.Epoch {
		outcome = Removed // a new epoch, with these alone
	}
	for i := range e.commit.Updates {
		switch c := &e.commit.Updates[i]; {
		case c.User != s.User || !c.Type.has(ofSession):
		case c.Type != KindLeave && s.is(c.Session):
			outcome = Active
		case outcome != Replaced && strings.HasPrefix(c.Session, reserved): // for whichever session joins first
			outcome = Removed
		case c.Type != KindLeave:
			outcome = Replaced
		case outcome != Replaced && c.Reason == reasonNode:
			outcome = Removed
		case outcome != Replaced:
			outcome = Ended
		}
	}
	if known && outcome != Replaced {
		return unchanged
	}
	return outcome
}

// is reports whether a member's session is this one, detached or not.
func (s Membership) is(session string) bool {
	return strings.TrimPrefix(session, detached) == s.Session
}

// Gone returns why a user who is not in the room was taken out of it, if the room remembers that.
func (s Snapshot) Gone(user string) (g Gone, found bool) {
	if s.state == nil {
		return g, false
	}
	return s.state.gone.of(user)
}
