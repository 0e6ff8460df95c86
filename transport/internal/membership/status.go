package membership

// Status is the state of a session in a room, as in the package's table.
type Status int

const (
	// Outside: not a member.
	Outside Status = iota
	// Unknown: not a member for the client, but a join or a leave may have been written.
	Unknown
	// Member: the session is the active one of its user.
	Member
	// Doubtful: a member that has to ask whether it still is one.
	Doubtful
	// Missing: a member that has lost its place, and joins again.
	Missing
	// Returned: an event shows a missing session again, or an old list lacks a member. The node asks whether the
	// session is a member, and the client then gets a snapshot.
	Returned
	// Unsure: a member whose further join had no answer. It asks whether it is one; events may be older.
	Unsure
	// Following: a member because its user was moved here. It has to take the seat.
	Following
	// Overtaken: brought back after a newer session had joined and left. It has to leave, too.
	Overtaken

	statuses
)

func (s Status) String() string {
	return [statuses]string{
		"outside", "unknown", "member", "doubtful", "missing", "returned", "unsure", "following", "overtaken",
	}[s]
}

// IsMember reports whether the session is a member for its client.
func (s Status) IsMember() bool { return s >= Member && s <= Overtaken }

// MayBeMember reports whether the stored room may have this as its user's active session.
func (s Status) MayBeMember() bool { return s.IsMember() || s == Unknown }

// IsPaused reports whether events wait until the action of Next is done.
func (s Status) IsPaused() bool { return s >= Doubtful && s <= Overtaken }

// NeedsList reports whether the client needs a snapshot before further events: some show the room without the
// session, or the client has not seen the room yet.
func (s Status) NeedsList() bool { return s >= Missing && s <= Following }

// Input is an event in the life of a membership.
type Input int

const (
	// Joined: the session has joined, or still is a member.
	Joined Input = iota
	// JoinUnknown: a join of the client may have been written.
	JoinUnknown
	// Left: a leave of the client was written, or had nothing to do.
	Left
	// LeaveUnknown: a leave of the client may have been written.
	LeaveUnknown
	// Refused: the session cannot get a seat: the room is full or closed, or the user is banned.
	Refused
	// Moved: the user was moved into the room.
	Moved
	// Seen: an event shows the session as its user's active one, or as away under its node's earlier name.
	Seen
	// Questioned: the session's node has another name, or a list lacks the session.
	Questioned
	// Contradicted: a snapshot lacks the session, but is older than the version that the session knows.
	Contradicted
	// Removed: the session has lost its place by a failure.
	Removed
	// Ended: the user was removed for good.
	Ended
	// TakenOver: a newer session of the user is active.
	TakenOver
	// TakenBefore: a newer session was active before this one was brought back.
	TakenBefore

	inputs
)

func (i Input) String() string {
	return [inputs]string{
		"joined", "join unknown", "left", "leave unknown", "refused", "moved", "seen",
		"questioned", "contradicted", "removed", "ended", "taken over", "taken before",
	}[i]
}

// transitions maps inputs to new statuses. A status without an entry stays.
var transitions = [inputs]map[Status]Status{
	Joined:       all(Member, Outside, Unknown, Doubtful, Missing, Returned, Unsure, Following, Overtaken),
	JoinUnknown:  {Outside: Unknown, Member: Unsure, Doubtful: Unsure, Missing: Unsure, Returned: Unsure},
	Left:         all(Outside, Unknown, Member, Doubtful, Missing, Returned, Unsure, Following, Overtaken),
	LeaveUnknown: all(Unknown, Member, Doubtful, Missing, Returned, Unsure, Following, Overtaken),
	Refused:      all(Outside, Unknown, Member, Doubtful, Missing, Returned, Unsure, Following, Overtaken),
	Moved:        {Outside: Following, Unknown: Following},
	Seen:         {Missing: Returned},
	Questioned:   {Member: Doubtful},
	Contradicted: {Member: Returned, Doubtful: Returned},
	Removed:      {Member: Missing, Doubtful: Missing, Returned: Missing, Unsure: Missing, Overtaken: Outside},
	Ended:        all(Outside, Member, Doubtful, Missing, Returned, Unsure, Following, Overtaken),
	TakenOver:    all(Outside, Member, Doubtful, Missing, Returned, Unsure, Following, Overtaken),
	TakenBefore:  all(Overtaken, Member, Doubtful, Missing, Returned),
}

func all(to Status, from ...Status) map[Status]Status {
	m := make(map[Status]Status, len(from))
	for _, status := range from {
		m[status] = to
	}
	return m
}

// After returns the status after an input.
func (s Status) After(in Input) Status {
	if next, changes := transitions[in][s]; changes {
		return next
	}
	return s
}
