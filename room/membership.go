package room

import "strings"

// Membership is the last known state of a session: at Version it was its user's active session or, if Out, the user
// was no member. Initially only User and Session are set; [Membership.Joined] returns the state after a join.
type Membership struct {
	User, Session string
	Node          string // the name of the session's node in the room
	Epoch         string
	Version       uint64
	Out           bool

	// outSince is the version at which the session was out before it was restored at Version; else 0.
	outSince uint64
}

// Outcome is what became of a session's membership.
type Outcome int

const (
	// unchanged: nothing newer is known.
	unchanged Outcome = iota
	// Active: the session is its user's active one.
	Active
	// Replaced: a newer session of the user is active, or was until it left.
	Replaced
	// Removed: the user is no member any more, by any session: the session's node was considered dead, or Redis has
	// lost the room. Or the user's seat is reserved again.
	Removed
	// Ended: the user is not in the room any more, and is not to be restored: somebody with authority has removed the
	// user, or a newer session has come and left. [Event.LeaveOf] may tell which.
	Ended
	// Doubtful: the event is older than the session's knowledge, and contradicts it.
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

// Missing returns the outcome and membership of a session whose user was not in the room when an action was refused
// with r. If the outcome is unchanged, the events up to r say more.
func (s Membership) Missing(r Result) (Outcome, Membership) {
	if s.Epoch == r.Epoch && s.Version <= r.Version {
		return unchanged, s
	}
	return Removed, s.out(r.Epoch, r.Version)
}

// Overtook reports whether e is no newer than the join that restored the session. If e nevertheless shows a newer
// session of the user, that session had left before the join.
func (s Membership) Overtook(e *Event) bool {
	return s.outSince > 0 && e.Epoch == s.Epoch && e.Version <= s.Version
}

func (s Membership) out(epoch string, version uint64) Membership {
	return Membership{User: s.User, Session: s.Session, Node: s.Node, Epoch: epoch, Version: version, Out: true}
}

// After returns the outcome of e for the session, and its membership after e.
//
// Within an epoch a user leaves a room only by a commit: a leave of this session, which its connection knows; a leave
// of a newer session, which replaced this one before; a removal by authority, which the room remembers ([Gone]); or
// the removal of a dead node's members. Events show which it was, but a snapshot in place of missed events does not.
// A node's members are removed only after its lease and the grace have expired. Before that, a user who is missing
// and not in Gone was replaced and has left. A new epoch means that Redis lost the room. If the node was cut off for
// longer and missed the events, nobody can tell; then the session counts as Removed.
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
	case in && m.Reserved(): // reserved for any session of the user
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

// inMissed returns the outcome of the missed events that a snapshot replaces.
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
		return unchanged // late, from an earlier epoch: a later epoch begins with a snapshot
	}
	outcome := unchanged
	if e.Epoch != s.Epoch {
		outcome = Removed // a new epoch, with these members only
	}
	for i := range e.commit.Updates {
		switch c := &e.commit.Updates[i]; {
		case c.User != s.User || !c.Type.has(ofSession):
		case c.Type != KindLeave && s.is(c.Session):
			outcome = Active
		case outcome != Replaced && strings.HasPrefix(c.Session, reserved): // reserved for any session of the user
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
