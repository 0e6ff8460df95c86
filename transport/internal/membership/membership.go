// Package membership is the state machine of a session in one room. It is pure: it gets events, results and moves,
// and returns the losses that the client is told of, and the node's next action.
//
//	            join, moved            event                               node asks, or acts
//	Outside ── joined ──────────► Member ── questioned ─────────────────► Doubtful    keep: is it still the one?
//	   ▲    ── moved ─► Following    │  ── removed ──► Missing                        join again, on the old seat
//	   │                   │ joined  │                    │ back ──► Returned         keep, for the list
//	   │                   └──────►──┤                    │ joined
//	   │                             │ ◄──────────────────┴─────── joined ─── all of these
//	   │ left: the client wants out  │
//	   │ ended, refused, or          ├── taken before ──► Overtaken                   leave, too
//	   │ taken over: lost            │                        │ removed: lost
//	   └──────────────────────────── ┴ ◄──────────────────────┘
//
// Unknown is Outside for the client, but the session may be in the room: a join or a leave had no answer. Unsure is a
// member whose further join had no answer: the node asks, and the session becomes a member, missing, or lost.
//
// In the statuses Doubtful to Overtaken the client gets no events of the room, and the node runs the action of Next
// until the status changes. After Missing to Following the client gets a snapshot in place of the events that it
// covers. Events do not count in Outside, Unknown, Unsure and Following. transitions has the whole table.
package membership

import (
	"context"
	"errors"

	"roomd/room"
)

// Membership is the state of a session in a room. It is not safe for concurrent use.
type Membership struct {
	Status Status
	Seat   int // the last known seat, or room.AnySeat
	known  known
}

// Of returns the membership of a session outside the room.
func Of(user, session string) Membership {
	return Membership{Seat: room.AnySeat, known: known{user: user, session: session}}
}

// Loss is the reason why a session lost its seat without leaving.
type Loss struct {
	room.Gone       // the removal; Version is not set
	Refusal   error // the error of a failed recovery, or nil
}

// ReasonReplaced is the reason of a [Loss] to a newer session of the user.
const ReasonReplaced room.Reason = "replaced"

var replaced = Loss{Gone: room.Gone{Reason: ReasonReplaced}}

// step applies an input. If the seat is lost, it returns why, or replaced if a newer session overtook; otherwise nil.
func (m *Membership) step(in Input, why Loss) *Loss {
	before := m.Status
	m.Status = before.After(in)
	if before == Overtaken {
		why = replaced
	}
	if before.IsMember() && m.Status == Outside && in != Left {
		return new(why) // not &why: it would allocate on every call
	}
	return nil
}

// Take applies an input that brings no loss: Moved or Questioned.
func (m *Membership) Take(in Input) {
	if in == Moved && !m.Status.IsMember() {
		m.Seat = room.AnySeat // the reserved seat is unknown
	}
	m.Status = m.Status.After(in)
}

// missed is the loss if no event or result says why, or if the user has left by another session.
var missed = Loss{Gone: room.Gone{Reason: room.ReasonLeft}}

// Event applies an event of the room, and returns the loss to tell the client of, or nil.
func (m *Membership) Event(e *room.Event) *Loss {
	if !m.Status.IsMember() || m.Status == Following || m.Status == Unsure {
		return nil
	}
	before, why := m.known, missed
	in := m.known.apply(e)
	switch in {
	case Seen:
		if is, found := e.Member(before.user); found {
			m.Seat = is.Seat // an old copy of Redis' data may have another seat
		}
	case TakenOver:
		why = replaced
	case Ended:
		if leave, found := e.LeaveOf(before.user, before.epoch, before.version); found {
			why.Gone = leave
		}
	}
	return m.step(in, why)
}

// JoinReply records the result of the client's join. It returns the loss that the result shows, or nil. The client is
// told of the loss before the reply.
func (m *Membership) JoinReply(result room.Result, err error) *Loss {
	gone, found := m.gone(result, err)
	switch {
	case err == nil:
		m.known.out = false
		m.joined(result)
	case errors.Is(err, room.ErrUnknown):
		return m.step(JoinUnknown, Loss{})
	case found && m.Status.IsMember():
		return m.step(Ended, Loss{Gone: gone})
	case errors.Is(err, room.ErrDuplicate) && m.Status.IsMember():
		return m.step(TakenOver, replaced)
	case errors.Is(err, room.ErrFull), errors.Is(err, room.ErrRoomClosed), errors.Is(err, room.ErrBanned),
		errors.Is(err, room.ErrDuplicate):
		return m.step(Refused, Loss{Refusal: err}) // a member gets these only if the seat was lost
	}
	return nil
}

// LeaveReply records the result of the client's leave. It returns an earlier loss as JoinReply does.
func (m *Membership) LeaveReply(result room.Result, err error) *Loss {
	switch {
	case err == nil:
		return m.step(Left, Loss{})
	case errors.Is(err, room.ErrUnknown):
		return m.step(LeaveUnknown, Loss{}) // if the leave was written, no recovery may undo it
	case errors.Is(err, room.ErrDuplicate):
		return m.step(TakenOver, replaced)
	case !errors.Is(err, room.ErrNotMember):
		return nil
	}
	if gone, found := m.gone(result, err); found && m.Status.IsMember() {
		return m.step(Ended, Loss{Gone: gone})
	}
	return m.step(Left, Loss{})
}

// gone returns the removal of the user that the result of an action shows, if any.
func (m *Membership) gone(result room.Result, err error) (room.Gone, bool) {
	if is, ok := errors.AsType[*room.RefusedError](err); ok && is.Gone != (room.Gone{}) {
		return is.Gone, true
	}
	g, found := result.Gone(m.known.user)
	return g, found && !errors.Is(err, room.ErrDuplicate) // with ErrDuplicate the user is there by another session
}

func (m *Membership) joined(result room.Result) {
	m.known.out = m.known.out && m.Status != Following
	m.Status = m.Status.After(Joined)
	m.Seat = result.Seat
	m.known.joined(result)
}

// Next returns the action that the node has to run, and false if there is none.
func (m *Membership) Next() (action room.Action, found bool) {
	user, session := m.known.user, m.known.session
	switch m.Status {
	case Doubtful, Returned, Unsure:
		return room.Keep{User: user, Session: session}, true
	case Missing:
		return room.Join{User: user, Session: session, Mode: room.JoinAgain, Seat: new(m.Seat)}, true
	case Following:
		// Expect makes the refusal of a user who was removed again say why.
		return room.Join{User: user, Session: session, Mode: room.JoinMoved, Expect: room.ExpectVersion("", 0)}, true
	case Overtaken:
		return room.Leave{User: user, Session: session}, true
	}
	return nil, false
}

// Answer records the result of Next's action. lost is the loss that it shows, or nil. wait asks for a pause before
// the next try, because the action failed for now, or an event on its way has to come first.
func (m *Membership) Answer(result room.Result, err error) (lost *Loss, wait bool) {
	absent := errors.Is(err, room.ErrNotMember) || errors.Is(err, room.ErrConflict)
	switch {
	case m.Status == Overtaken && (err == nil || absent):
		return m.step(Removed, Loss{}), false
	case err == nil:
		m.joined(result)
		return nil, false
	case absent:
		return m.absent(result, err)
	case errors.Is(err, room.ErrDuplicate):
		return m.step(TakenOver, replaced), false
	case errors.Is(err, room.ErrSeatTaken),
		errors.Is(err, room.ErrInvalid) && m.Status == Missing && m.Seat != room.AnySeat:
		m.Seat = room.AnySeat // the room may have fewer seats by now
		return nil, false
	case IsTransient(err), errors.Is(err, room.ErrClosed): // ErrClosed: the node closes its connections
		return nil, true
	}
	if gone, found := m.gone(result, err); found {
		return m.step(Ended, Loss{Gone: gone}), false
	}
	return m.step(Refused, Loss{Refusal: err}), false
}

func (m *Membership) absent(result room.Result, err error) (lost *Loss, wait bool) {
	why := missed
	gone, found := m.gone(result, err)
	if found {
		why.Gone = gone
	}
	// An event on its way, or a snapshot, says why.
	explained := m.known.epoch == result.Epoch && m.known.version <= result.Version
	switch {
	case m.Status == Missing, m.Status == Following, m.Status == Unsure && found:
		return m.step(Ended, why), false
	case m.Status != Unsure && explained:
		return nil, true
	case !explained:
		m.known.record(true, result.Epoch, result.Version)
	}
	return m.step(Removed, Loss{}), false
}

// IsTransient reports whether to retry an action that failed with err, if doing it twice changes nothing.
func IsTransient(err error) bool {
	return errors.Is(err, room.ErrUnavailable) || errors.Is(err, room.ErrBusy) || errors.Is(err, room.ErrUnknown) ||
		errors.Is(err, context.DeadlineExceeded)
}

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
)

// IsMember reports whether the session is a member for its client.
func (s Status) IsMember() bool { return s >= Member && s <= Overtaken }

// MayBeMember reports whether, for all that the node knows, the session may be its user's active one in Redis.
func (s Status) MayBeMember() bool { return s.IsMember() || s == Unknown }

// IsPaused reports whether events wait until the action of Next is done.
func (s Status) IsPaused() bool { return s >= Doubtful && s <= Overtaken }

// NeedsList reports whether the client needs a snapshot before further events: some show the room without the
// session, or the client has not seen the room yet.
func (s Status) NeedsList() bool { return s >= Missing && s <= Following }

// Input is anything that can change a Status.
type Input int

const (
	nothing Input = iota
	// Joined: the session has joined, or still is a member.
	Joined
	// JoinUnknown: a join of the client may have been written.
	JoinUnknown
	// Left: a leave of the client was written, or had nothing to do.
	Left
	// LeaveUnknown: a leave of the client may have been written.
	LeaveUnknown
	// Refused: the session cannot get a seat, for example because the room is full or the user banned.
	Refused
	// Moved: the user was moved into the room.
	Moved
	// Seen: an event shows the session as its user's active one, or as away under its node's earlier name.
	Seen
	// Questioned: the session's node has another name, or a list lacks the session.
	Questioned
	// Contradicted: a snapshot lacks the session, but is older than the version that the session knows.
	Contradicted
	// Removed: the user is no member any more, by any session, because of a failure: the session's node was considered
	// dead, or Redis has lost the room. Or the user's seat is reserved again.
	Removed
	// Ended: the user is not to be restored: somebody with authority has removed the user, or a newer session has come
	// and left.
	Ended
	// TakenOver: a newer session of the user is active, or was until it left.
	TakenOver
	// TakenBefore: a newer session was active before this one was brought back.
	TakenBefore

	inputs
)

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
