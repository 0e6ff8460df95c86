package membership

import "roomd/room"

// known is the last known state of a session: at version it was its user's active session or, if out, the user was no
// member. Initially only user and session are set.
type known struct {
	user, session string
	node          string // the name of the session's node in the room
	epoch         string
	version       uint64
	out           bool

	// outSince is the version at which the session was out before it was restored at version; else 0.
	outSince uint64
}

// joined records the session's join with result r.
func (k *known) joined(r room.Result) {
	since := uint64(0)
	if k.out && k.epoch == r.Epoch {
		since = k.version
	}
	*k = known{user: k.user, session: k.session, node: r.Node, epoch: r.Epoch, version: r.Version, outSince: since}
}

// overtook reports whether e is no newer than the join that restored the session. If e nevertheless shows a newer
// session of the user, that session had left before the join.
func (k *known) overtook(e *room.Event) bool {
	return k.outSince > 0 && e.Epoch == k.epoch && e.Version <= k.version
}

// record records that the session was active or out at a version.
func (k *known) record(out bool, epoch string, version uint64) {
	*k = known{user: k.user, session: k.session, node: k.node, epoch: epoch, version: version, out: out}
}

// apply records e, and returns the Input to the session's status that follows from it, or nothing.
//
// Within an epoch a user leaves a room only by a commit: a leave of this session, which its connection knows; a leave
// of a newer session, which replaced this one before; a removal by authority, which the room remembers ([room.Gone]);
// or the removal of a dead node's members. Events show which it was, but a snapshot in place of missed events does
// not. A node's members are removed only after its lease and the grace have expired. Before that, a user who is
// missing and not in Gone was replaced and has left. A new epoch means that Redis lost the room. If the node was cut
// off for longer and missed the events, nobody can tell; then the session counts as Removed.
func (k *known) apply(e *room.Event) (in Input) {
	switch {
	case e.Rejoin:
		return Questioned
	case e.Snapshot != nil:
		in = k.inSnapshot(e)
	case e.Commit != nil:
		in = k.inChanges(e)
	}
	switch in {
	case Seen:
		k.record(false, e.Epoch, e.Version)
		if node, shown := e.NodeOf(k.user); shown {
			k.node = node
		}
	case Removed, Ended:
		k.record(true, e.Epoch, e.Version)
	case TakenOver:
		if k.overtook(e) {
			return TakenBefore
		}
	}
	return in
}

func (k *known) inSnapshot(e *room.Event) Input {
	m, found := e.Member(k.user)
	mine := found && k.is(m)
	switch {
	case e.Epoch == k.epoch && e.Version < k.version:
		if mine || k.out {
			return nothing
		}
		return Contradicted
	case mine:
		return Seen
	case found && m.Reserved(): // reserved for any session of the user
		return Removed
	case found:
		return TakenOver
	}
	if g, ok := e.Snapshot.Gone(k.user); ok && (e.Epoch != k.epoch || k.out || g.Version > k.version) {
		return Ended
	}
	if e.Epoch != k.epoch || k.out {
		return Removed
	}
	switch in := k.inMissed(e); {
	case in == TakenOver, in == Ended:
		return in
	case e.Keeps(k.node):
		return Ended
	}
	return Removed
}

// inMissed returns the Input that follows from e.Missed, the events that snapshot e replaces; or nothing.
func (k *known) inMissed(e *room.Event) (in Input) {
	for _, missed := range e.Missed {
		if found := k.inChanges(missed); found != nothing && in != TakenOver {
			in = found
		}
	}
	return in
}

func (k *known) inChanges(e *room.Event) Input {
	old := e.Epoch == k.epoch && e.Version <= k.version
	switch {
	case old && (k.outSince == 0 || e.Version <= k.outSince):
		return nothing
	case e.Epoch != k.epoch && e.Version > 1:
		return nothing // late, from an earlier epoch: a later epoch begins with a snapshot
	}
	in := nothing
	if e.Epoch != k.epoch {
		in = Removed // a new epoch, with these members only
	}
	for i := range e.Commit.Updates {
		c := &e.Commit.Updates[i]
		switch by := (room.Member{Session: c.Session}); {
		case c.User != k.user || !c.Type.OfSession():
		case c.Type != room.KindLeave && k.is(by):
			in = Seen
		case in != TakenOver && by.Reserved(): // reserved for any session of the user
			in = Removed
		case c.Type != room.KindLeave:
			in = TakenOver
		case in != TakenOver && c.Reason == room.ReasonNode,
			// others saw this node stand still, and the room's grace ended meanwhile
			in != TakenOver && c.Reason == room.ReasonTimeout && k.is(room.Member{Session: c.Old}):
			in = Removed
		case in != TakenOver:
			in = Ended
		}
	}
	if old && in != TakenOver {
		return nothing
	}
	return in
}

// is reports whether a member's session is this one, detached or not.
func (k *known) is(m room.Member) bool { return !m.Reserved() && m.SessionID() == k.session }
