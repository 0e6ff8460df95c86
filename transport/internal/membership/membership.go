// Package membership is one state machine for what a session is to a room: as a member, and as a watcher.
// It is pure: it gets events, results and moves, and says what the client hears and what the node does next.
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
// Unknown is Outside, for the client, of a session that may be in the room: a join or a leave had no answer.
// Unsure is a member of whom a further join had no answer: it asks, and is a member, missing, or what it hears.
// While the status is Doubtful to Overtaken the client gets no events of the room,
// and the node runs the action of Next until the status is another one. From Missing to Following the
// client gets the room as it is, in place of the events that it covers. The whole table is transitions; events
// of a room in which the session is Outside, Unknown, Unsure or Following do not count for the membership.
package membership

import (
	"context"
	"errors"

	"roomd/room"
)

// Membership is what a session is to a room. It is not safe for concurrent use.
type Membership struct {
	Status Status
	Seat   int // the last that is known, or room.AnySeat
	known  room.Membership
}

// Of returns the membership of a session that is not in the room.
func Of(user, session string) Membership {
	return Membership{Seat: room.AnySeat, known: room.Membership{User: user, Session: session}}
}

// Loss is why a session has no seat any more although it did not leave.
type Loss struct {
	room.Gone       // by whom; Version is not set
	Refusal   error // if not nil, the node could not bring the session back
}

// ReasonReplaced is the reason of a [Loss] to a newer session of the user.
const ReasonReplaced room.Reason = "replaced"

var replaced = Loss{Gone: room.Gone{Reason: ReasonReplaced}}

// step takes an input. It returns the loss of which the client has to hear, if there is one. Whatever ends an
// overtaken membership, it was lost to the newer session.
func (m *Membership) step(in Input, why Loss) *Loss {
	before := m.Status
	m.Status = before.After(in)
	if before == Overtaken {
		why = replaced
	}
	if before.IsMember() && m.Status == Outside && in != Left {
		return new(why) // not &why, which would allocate it always
	}
	return nil
}

// Take takes an input that needs no explanation: Moved or Questioned.
func (m *Membership) Take(in Input) {
	if in == Moved && !m.Status.IsMember() {
		m.Seat = room.AnySeat // that of the reservation
	}
	m.Status = m.Status.After(in)
}

// missed is what happened where it was missed, or the user has left by another session.
var missed = Loss{Gone: room.Gone{Reason: room.ReasonLeft}}

// Event judges what an event of the room says of the session's place.
func (m *Membership) Event(e *room.Event) *Loss {
	if !m.Status.IsMember() || m.Status == Following || m.Status == Unsure {
		return nil
	}
	before := m.known
	outcome, known := before.After(e)
	m.known = known
	switch outcome {
	case room.Active:
		if seat, seated := e.SeatOf(before.User); seated {
			m.Seat = seat // an old copy of Redis' data may have another one
		}
		return m.step(Seen, Loss{})
	case room.Replaced:
		if before.Overtook(e) {
			return m.step(TakenBefore, Loss{})
		}
		return m.step(TakenOver, replaced)
	case room.Removed:
		return m.step(Removed, Loss{})
	case room.Ended:
		why := missed
		if leave, found := e.LeaveOf(before); found {
			why.Gone = leave
		}
		return m.step(Ended, why)
	case room.Doubtful:
		return m.step(Contradicted, Loss{})
	}
	if e.Rejoin {
		return m.step(Questioned, Loss{})
	}
	return nil
}

// JoinReply records how a join of the client ended. If the session has lost its place, which the join shows, it returns
// the loss, which the client has to know before the reply.
func (m *Membership) JoinReply(result room.Result, err error) *Loss {
	gone, found := m.gone(result, err)
	switch {
	case err == nil:
		m.known.Out = false
		m.joined(result)
	case errors.Is(err, room.ErrUnknown):
		return m.step(JoinUnknown, Loss{})
	case found && m.Status.IsMember():
		return m.step(Ended, Loss{Gone: gone})
	case errors.Is(err, room.ErrDuplicate) && m.Status.IsMember():
		return m.step(TakenOver, replaced)
	case errors.Is(err, room.ErrFull), errors.Is(err, room.ErrRoomClosed), errors.Is(err, room.ErrBanned),
		errors.Is(err, room.ErrDuplicate):
		return m.step(Refused, Loss{Refusal: err}) // a member does not get these, unless the seat was lost
	}
	return nil
}

// LeaveReply records how a leave of the client ended. If somebody else was faster it returns the loss, which
// the client has to know before the reply.
func (m *Membership) LeaveReply(result room.Result, err error) *Loss {
	switch {
	case err == nil:
		return m.step(Left, Loss{})
	case errors.Is(err, room.ErrUnknown):
		return m.step(LeaveUnknown, Loss{}) // if it was written, the session must not be brought back
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

// gone returns who has taken the user out, as an action found.
func (m *Membership) gone(result room.Result, err error) (room.Gone, bool) {
	if is, ok := errors.AsType[*room.GoneError](err); ok {
		return is.Gone, true
	}
	g, found := result.Gone(m.known.User)
	return g, found && !errors.Is(err, room.ErrDuplicate) // with another session the user is there
}

func (m *Membership) joined(result room.Result) {
	m.known.Out = m.known.Out && m.Status != Following
	m.Status = m.Status.After(Joined)
	m.Seat, m.known = result.Seat, m.known.Joined(result)
}

// Next returns the action that the node has to run, and false if there is none.
func (m *Membership) Next() (action room.Action, found bool) {
	user, session := m.known.User, m.known.Session
	switch m.Status {
	case Doubtful, Returned, Unsure:
		return room.Keep{User: user, Session: session}, true
	case Missing:
		return room.Join{User: user, Session: session, Mode: room.JoinAgain, Seat: room.At(m.Seat)}, true
	case Following:
		// Whoever was taken out again hears why.
		return room.Join{User: user, Session: session, Mode: room.JoinMoved, Expect: room.ExpectVersion("", 0)}, true
	case Overtaken:
		return room.Leave{User: user, Session: session}, true
	}
	return nil, false
}

// Answer records how the action of Next ended. wait says that it has to be tried again after a pause, because it
// has failed for now, or an event that is on its way has to come first.
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
	case IsTransient(err), errors.Is(err, room.ErrClosed): // or the node shuts down, and closes its connections
		return nil, true
	}
	if gone, found := m.gone(result, err); found {
		return m.step(Ended, Loss{Gone: gone}), false
	}
	return m.step(Refused, Loss{Refusal: err}), false
}

// absent records that an action has not found the user in the room.
func (m *Membership) absent(result room.Result, err error) (lost *Loss, wait bool) {
	why := missed
	gone, found := m.gone(result, err)
	if found {
		why.Gone = gone
	}
	outcome, known := m.known.Missing(result)
	switch {
	case m.Status == Missing, m.Status == Following, m.Status == Unsure && found:
		return m.step(Ended, why), false
	case m.Status != Unsure && outcome != room.Removed:
		return nil, true // an event on its way, or a snapshot, says why
	case outcome == room.Removed:
		m.known = known
	}
	return m.step(Removed, Loss{}), false
}

// IsTransient reports whether an action that failed with err should be tried again. A join
// or a leave may be, also if it was done: the second time changes nothing.
func IsTransient(err error) bool {
	return errors.Is(err, room.ErrUnavailable) || errors.Is(err, room.ErrBusy) || errors.Is(err, room.ErrUnknown) ||
		errors.Is(err, context.DeadlineExceeded)
}
