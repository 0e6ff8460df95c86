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
// Unknown is Outside for the client, but a join or a leave had no answer: the session may be in the room. Unsure is a
// member whose further join had no answer: it asks, and becomes a member, missing, or lost. From Doubtful to
// Overtaken the client gets no events of the room, and the node runs the action of Next until the status changes.
// From Missing to Following the client then gets a snapshot, in place of the events that it covers. transitions has
// the whole table; events do not count while the session is Outside, Unknown, Unsure or Following.
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
	known  room.Membership
}

// Of returns the membership of a session outside the room.
func Of(user, session string) Membership {
	return Membership{Seat: room.AnySeat, known: room.Membership{User: user, Session: session}}
}

// Loss is the reason why a session lost its seat without leaving.
type Loss struct {
	room.Gone       // the removal; Version is not set
	Refusal   error // the error of a failed recovery, or nil
}

// ReasonReplaced is the reason of a [Loss] to a newer session of the user.
const ReasonReplaced room.Reason = "replaced"

var replaced = Loss{Gone: room.Gone{Reason: ReasonReplaced}}

// step applies an input, and returns the loss for the client, or nil. An overtaken session loses to the newer one.
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

// Take applies an input without a loss: Moved or Questioned.
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
	before := m.known
	outcome, known := before.After(e)
	m.known = known
	switch outcome {
	case room.Active:
		if seat, seated := e.SeatOf(before.User); seated {
			m.Seat = seat // an old copy of Redis' data may have another seat
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

// JoinReply records the result of the client's join. It returns the loss that the result shows, or nil. The client is
// told of the loss before the reply.
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
		return m.step(Refused, Loss{Refusal: err}) // a member gets these only if the seat was lost
	}
	return nil
}

// LeaveReply records the result of the client's leave. It returns an earlier loss, or nil, to tell before the reply.
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
	if is, ok := errors.AsType[*room.GoneError](err); ok {
		return is.Gone, true
	}
	g, found := result.Gone(m.known.User)
	return g, found && !errors.Is(err, room.ErrDuplicate) // with ErrDuplicate the user is there by another session
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
		// Expect makes the refusal of a user who was removed again say why.
		return room.Join{User: user, Session: session, Mode: room.JoinMoved, Expect: room.ExpectVersion("", 0)}, true
	case Overtaken:
		return room.Leave{User: user, Session: session}, true
	}
	return nil, false
}

// Answer records the result of Next's action. wait asks for a pause before the next try, because the action failed
// for now, or an event on its way has to come first.
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

// IsTransient reports whether to retry an action that failed with err: a second join or leave changes nothing.
func IsTransient(err error) bool {
	return errors.Is(err, room.ErrUnavailable) || errors.Is(err, room.ErrBusy) || errors.Is(err, room.ErrUnknown) ||
		errors.Is(err, context.DeadlineExceeded)
}
