package history

import (
	"slices"
	"unique"
)

// What a Request can ask for.
const (
	SetReady   = "ready"     // Ready of the member By
	SetMember  = "member"    // Data of the member By
	SetData    = "set"       // Data of the room
	SetPrivate = "private"   // Data of the member By, or all Hands
	SetTimer   = "timer"     // the timer Text; it may fire, once
	Say        = "say"       // Text or Data, to all or those in To
	Swap       = "swap"      // of the seats of both Users
	Shuffle    = "shuffle"   // of the seats of all
	Kick       = "kick"      // of Users, if they are members
	Unban      = "unban"     // of Users
	Close      = "close"     // everybody leaves
	Configure  = "configure" // Settings
	Reserve    = "reserve"   // seats for all Users, or none
	Release    = "release"   // all Users leave, or none
	MoveOut    = "move out"  // Users, into the room Target
	MoveIn     = "move in"   // Users, from the room Target
)

// Request is what a client or an administrator asked for, other than to join or to leave.
type Request struct {
	Action   string   // one of the constants
	By       string   // the user who asked; empty for an administrator who is no user
	Users    []Member // whom it concerns; seats count in Reserve and MoveIn, and in a Swap or Shuffle of an administrator, who is told all of them
	Target   string   // the other room of a move
	Ready    bool
	Text     string // of a message, or why somebody is kicked
	Data     string // JSON; empty removes
	To       []string
	Hands    []Hand
	Settings Rules

	// Expect, if not nil, makes it a compare-and-set: nobody else may have changed the
	// data since that version, or, if ExpectEpoch is given, in another epoch.
	Expect      *uint64
	ExpectEpoch string

	// BannedUntil is when the ban of a Kick ends, in ms since 1970; 0 is no ban. If it is
	// not known exactly, it is the earliest time that it can be.
	BannedUntil int64
}

// Reply is an answer to a Request: where the room stood after it. Data is that of a refused
// compare-and-set.
type Reply struct {
	Epoch   string
	Version uint64
	Data    string
}

// answered is a Request with its answer.
type answered struct {
	Request
	Epoch    string
	Version  uint64
	conflict bool
	there    string // the data that a conflict told
}

// unanswered is a Request that may have been committed, at a version above after.
type unanswered struct {
	Request
	after uint64
}

// Done records an acknowledged request, and its count of members.
func (v *View) Done(q Request, r Reply, count int) {
	if r.Epoch == v.epoch && r.Version < v.floor {
		v.report(VersionGap, r.Version, "%s's %s was answered at version %d after version %d", v.name, q.Action, r.Version, v.floor)
	}
	v.floor = max(v.floor, r.Version)
	if r.Epoch != v.epoch {
		v.floor = r.Version
	}
	v.room.done(answered{q, r.Epoch, r.Version, false, ""})
	v.room.observeCount(r.Epoch, r.Version, count, v.observer)
}

// Refused records that a compare-and-set was refused, and what was there instead.
func (v *View) Refused(q Request, r Reply) {
	v.room.done(answered{q, r.Epoch, r.Version, true, r.Data})
}

// Unanswered records a request that may or may not be committed.
func (v *View) Unanswered(q Request) { v.room.unanswer(q, v.floor) }

// Done records a request of an administrator that was acknowledged.
func (l *Ledger) Done(room string, q Request, r Reply) {
	l.room(room).done(answered{q, r.Epoch, r.Version, false, ""})
}

// Conflict records a compare-and-set of an administrator that was refused.
func (l *Ledger) Conflict(room string, q Request, r Reply) {
	l.room(room).done(answered{q, r.Epoch, r.Version, true, r.Data})
}

// Refused records a Reserve, a Release or a move that was refused: it must not have happened
// in part.
func (l *Ledger) Refused(room string, q Request) {
	r := l.room(room)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = append(r.refused, q)
}

// MayLeave declares that the server may remove the user at a version above after: the user
// has a reserved seat and does not come. Once the user has come, it counts no more.
func (l *Ledger) MayLeave(room, user string, after uint64) {
	l.room(room).addUnknown(user, lapse, after)
}

// Unanswered records a request of an administrator that may or may not be committed, above
// the version after; zero is always safe.
func (l *Ledger) Unanswered(room string, q Request, after uint64) { l.room(room).unanswer(q, after) }

func (r *roomLog) done(a answered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.epochLocked(a.Epoch, a.Version)
	e.requests = append(e.requests, a)
	if a.conflict {
		return
	}
	ack := storedAck{version: a.Version, user: unique.Make(a.By), kind: ackStays, at: r.ledger.now()}
	switch a.Action {
	case Kick, Release, MoveOut, Reserve, MoveIn:
		if len(a.Users) == 0 {
			break // somebody was banned who was not there
		}
		if ack.kind = ackMoves; a.Action == Kick && a.BannedUntil != 0 {
			ack.kind = ackGone // who need not have been there
		}
		for _, m := range a.Users {
			ack.user = unique.Make(m.User)
			if ack.join = a.Action == Reserve || a.Action == MoveIn; ack.join {
				ack.seat = int32(m.Seat)
				e.top = max(e.top, m.Seat)
			}
			if a.Action == MoveIn { // the server brings the user's connection after it, perhaps unseen
				r.unknowns = append(r.unknowns, unknown{m.User, Back, a.Version})
			}
			e.acks = append(e.acks, ack)
		}
		return
	case Close:
		ack.kind = ackCloses
	case SetTimer: // it may fire while nobody watches, which leaves no more trace in a list than Away
		r.unknowns = append(r.unknowns, unknown{a.By, Away, a.Version})
	}
	e.acks = append(e.acks, ack)
}

func (r *roomLog) unanswer(q Request, after uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered = append(r.unanswered, unanswered{q, after})
	switch q.Action {
	case Kick, Release, MoveOut:
		for _, m := range q.Users {
			r.unknowns = append(r.unknowns, unknown{m.User, Leave, after})
		}
		if q.Action != Kick {
			return
		}
	case Reserve, MoveIn:
		for _, m := range q.Users {
			r.unknowns = append(r.unknowns, unknown{m.User, Join, after}, unknown{m.User, Leave, after})
			if q.Action == MoveIn {
				r.unknowns = append(r.unknowns, unknown{m.User, Back, after})
			}
		}
		return
	}
	if q.Action == SetTimer {
		r.unknowns = append(r.unknowns, unknown{q.By, Away, after})
	}
	// A commit that moves nobody, as a ban of who is not there, leaves no more trace in a
	// list than Away.
	r.unknowns = append(r.unknowns, unknown{q.By, Away, after})
}

// has reports whether the request concerns the user.
func (q *Request) has(user string) bool {
	return slices.ContainsFunc(q.Users, func(m Member) bool { return m.User == user })
}
