// Package check judges what clients of a room server were told while its nodes and its Redis were disturbed.
//
// A [History] has every call and return, every event, and the rooms' journals as they were in the end. Two checkers
// judge it, and neither knows the other:
//
//   - [Witness] replays each journal by the model of the audit (internal/model), and compares it with what the
//     clients know: each acknowledged action is in it exactly once, replies and events say what it says, and who
//     began after another had been answered comes behind.
//   - [Linearize] has no journal, which only tells it who was removed with a dead node. It asks porcupine whether the
//     calls of a room can have happened one after the other, each between its call and its return, by a sequential model
//     of a room.
//
// Both judge by epoch. Where Redis lost acknowledged commits, a new epoch begins: what of the old one is missing in
// the journal is counted, and is a violation unless a fault was allowed to lose it ([Fault.Loses]).
//
// The package imports nothing of the server.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The actions of an [Op].
const (
	Join       = "join"
	Leave      = "leave"
	Read       = "users"
	Ready      = "ready"
	SetData    = "set"
	SetMember  = "member"
	SetPrivate = "private"
	Deal       = "deal" // of private data to Users, all of them or none
	Say        = "say"
	SetTimer   = "timer"      // Name, which fires once, and then sets the data to Value if there is one
	StopTimer  = "stop timer" // Name
	Match      = "match"      // a join of any room with the labels of Settings; a new one begins with these
	Swap       = "swap"       // of the seats of both Users
	Shuffle    = "shuffle"    // of the seats of all
	Configure  = "configure"
	Kick       = "kick"
	Close      = "close"
	Reserve    = "reserve"
	Release    = "release"
	MoveOut    = "move out" // the half of a move in the room that users leave
	MoveIn     = "move in"
)

// Outcome says how an operation ended.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // nothing was written
	Unknown Outcome = "unknown" // it may have been written, or may be yet
)

// Member is a user on a seat.
type Member struct {
	User  string `json:"user"`
	Seat  int    `json:"seat"`
	Away  bool   `json:"away,omitzero"`
	Ready bool   `json:"ready,omitzero"`
	Data  string `json:"data,omitzero"`
}

// Settings are those of a room that decide who comes in, and who may do what.
type Settings struct {
	Capacity int    `json:"capacity"`
	Closed   bool   `json:"closed,omitzero"`
	Host     string `json:"host,omitzero"` // Longest: one of the members is the host as long as there are some
	Labels   Labels `json:"labels,omitzero"`
}

// Longest is the policy by which a room has a host.
const Longest = "longest"

// Labels are what a room is for: JSON in the form in which rooms keep it, empty for none.
type Labels string

// MarshalJSON returns the JSON.
func (l Labels) MarshalJSON() ([]byte, error) { return []byte(cmp.Or(l, "null")), nil }

// UnmarshalJSON takes any JSON.
func (l *Labels) UnmarshalJSON(text []byte) error {
	*l = Labels(text)
	return nil
}

// List is a room as a client was shown it.
type List struct {
	Users    []Member `json:"users"`
	Data     string   `json:"data,omitzero"`
	Settings Settings `json:"settings"`
	Host     string   `json:"host,omitzero"`   // the user who is it
	Timers   []string `json:"timers,omitzero"` // their names, in order

	All     bool              `json:"all,omitzero"`     // it has the private data of all
	For     string            `json:"for"`              // the user to whom it was shown
	Private map[string]string `json:"private,omitzero"` // the private data that the user was shown
}

// Op is one call, and its return. Times are since the run began, by the monotonic clock of the one process that has
// all clients.
type Op struct {
	ID      int           `json:"op"`
	Process string        `json:"process"` // the user, or the administrator
	Node    int           `json:"node"`
	Room    string        `json:"room"` // empty until a room is found, of a Match and of a party that looks for one
	Action  string        `json:"action"`
	Call    time.Duration `json:"call"`
	Return  time.Duration `json:"return"`
	Outcome Outcome       `json:"outcome"`
	Code    string        `json:"code,omitzero"` // of a refusal

	// What was asked for.
	Asked    *int      `json:"asked,omitzero"`   // seat
	Name     string    `json:"name,omitzero"`    // of a timer
	AsHost   bool      `json:"as_host,omitzero"` // by a player who has the right only as the host
	Value    string    `json:"value,omitzero"`   // data or text: no two operations have the same
	Users    []string  `json:"users,omitzero"`   // whom it concerns, besides the process
	Expect   *uint64   `json:"expect,omitzero"`  // version
	InEpoch  string    `json:"in_epoch,omitzero"`
	Settings *Settings `json:"settings,omitzero"`
	Left     int       `json:"left,omitzero"` // of a MoveIn: the operation by which its user leaves the other room
	Part     bool      `json:"part,omitzero"` // of an action that counts as another operation

	// What was answered.
	Epoch   string `json:"epoch,omitzero"`
	Version uint64 `json:"version,omitzero"`
	Seat    int    `json:"seat,omitzero"`
	Count   int    `json:"count,omitzero"`
	Now     string `json:"now,omitzero"` // the data that a refused compare-and-set would have replaced
	List    *List  `json:"list,omitzero"`
}

// writes reports whether the action changes a room each time that it is done.
func (o *Op) writes() bool {
	switch o.Action {
	case SetData, Say, SetMember, SetPrivate, Deal, SetTimer:
		return true
	}
	return false
}

// matches reports whether any room with the labels of Settings would do.
func (o *Op) matches() bool { return o.Action == Match || o.Action == Reserve && o.Settings != nil }

// hidden reports whether watchers are not told what the operation does.
func (o *Op) hidden() bool {
	return o.Action == SetPrivate || o.Action == Deal || o.Action == Say && len(o.Users) > 0
}

// Acts reports whether the operation counts as an action: it is no read, and no part of one that is another operation.
func (o *Op) Acts() bool { return o.Action != Read && !o.Part }

// joins reports whether the process becomes a member.
func (o *Op) joins() bool { return o.Action == Join || o.Action == Match }

// String describes the operation in a line.
func (o *Op) String() string {
	text := fmt.Sprintf("op %d: %q %s", o.ID, o.Process, o.Action)
	if o.Value != "" {
		text += " " + o.Value
	}
	if len(o.Users) > 0 {
		text += fmt.Sprintf(" %q", o.Users)
	}
	text += fmt.Sprintf(" in room %s on node %d, from %.3f s to ", o.Room, o.Node, o.Call.Seconds())
	switch o.Outcome {
	case Unknown:
		return text + "an unknown end"
	case Refused:
		return text + fmt.Sprintf("%.3f s: refused, %s", o.Return.Seconds(), o.Code)
	}
	text += fmt.Sprintf("%.3f s: done at version %d of epoch %s", o.Return.Seconds(), o.Version, short(o.Epoch))
	if o.joins() {
		text += fmt.Sprintf(" on seat %d", o.Seat)
	}
	return text
}

func short(epoch string) string { return epoch[:min(8, len(epoch))] }

// Change is one thing that an event or a journal says of a room.
type Change struct {
	Type     string    `json:"type"`
	User     string    `json:"user,omitzero"`
	Seat     int       `json:"seat,omitzero"`
	Away     bool      `json:"away,omitzero"`
	Reason   string    `json:"reason,omitzero"`
	Text     string    `json:"text,omitzero"`
	Target   string    `json:"target,omitzero"`
	Data     string    `json:"data,omitzero"` // of a member: empty is as before, null is none; so of private data
	Ready    *bool     `json:"ready,omitzero"`
	To       []string  `json:"to,omitzero"`
	Settings *Settings `json:"settings,omitzero"`
	Name     string    `json:"name,omitzero"` // of a timer
	Set      bool      `json:"set,omitzero"`  // of a countdown: the timer is set, and not cancelled

	// What only journals say. Times are in ms since 1970, by the clock of Redis.
	At    int64 `json:"-"` // of a join
	Until int64 `json:"-"` // of a ban
	// it was so before Redis lost it; or of a join, it brings back who had lost the place by a failure
	Again bool `json:"-"`
}

// Event is something that a connection was told besides replies: changes from one version to another, or the whole
// room, or (Lost) that its user is a member no more.
type Event struct {
	Conn int           `json:"conn"` // of a user, counted over the run
	User string        `json:"user"`
	At   time.Duration `json:"at"`
	*Frame
}

// Frame is what an Event says. Many connections may have been told the same one: it must not be changed.
type Frame struct {
	Room    string   `json:"room"`
	Epoch   string   `json:"epoch,omitzero"`
	Version uint64   `json:"version,omitzero"`
	From    uint64   `json:"from,omitzero"`
	Changes []Change `json:"changes,omitzero"`
	List    *List    `json:"list,omitzero"`
	Lost    string   `json:"lost,omitzero"` // the reason
	Reply   bool     `json:"reply,omitzero"`
}

// Conn is a connection of a user, for as long as its server was heard on it.
type Conn struct {
	User string        `json:"user"`
	Node int           `json:"node"`
	From time.Duration `json:"from"`
	Last time.Duration `json:"last"` // when something was heard, before it ended or the run did
	Open bool          `json:"open"` // until the end of the run

	// Watches says that the user is no player, and watches rooms: where a room has no journal, what watchers were
	// told stands for it.
	Watches bool `json:"watches,omitzero"`
}

// moment is when something happened, between two times.
type moment struct {
	from, to time.Duration
	op       *Op // by which; nil if it was none
}

// ops returns the operations of each room, or that may be of it, in the order of their calls.
func (h *History) ops() map[string][]*Op {
	of := make(map[string][]*Op)
	for _, room := range h.Rooms {
		of[room] = nil
	}
	for _, op := range h.Ops {
		switch {
		case op.Room != "":
			of[op.Room] = append(of[op.Room], op)
		case op.Outcome == Unknown: // nobody knows where it was
			for room := range of {
				of[room] = append(of[room], op)
			}
		}
	}
	return of
}

// answered returns the operations that were answered, by user, in the order of their calls.
func (h *History) answered() map[string][]*Op {
	of := make(map[string][]*Op)
	for _, op := range h.Ops {
		if op.Outcome != Unknown && op.Return > 0 {
			of[op.Process] = append(of[op.Process], op)
		}
	}
	return of
}

// believed returns when the server had each of the connections for the last time for certain: when it did the last
// operation whose reply came there, or at its beginning. What was heard after that may have been on its way for any
// time when the server had given the connection up already.
func (h *History) believed() []moment {
	of := h.answered()
	next := make(map[string]time.Duration) // by user: the beginning of the connection after this one
	at := make([]moment, len(h.Conns))
	for i, c := range slices.Backward(h.Conns) {
		ops := of[c.User]
		end, again := next[c.User]
		at[i] = moment{from: c.From, to: c.From}
		called := func(op *Op, at time.Duration) int { return cmp.Compare(op.Call, at) }
		for j, _ := slices.BinarySearchFunc(ops, c.Last+1, called); j > 0 && ops[j-1].Call >= c.From; j-- {
			if op := ops[j-1]; !again || op.Return < end {
				at[i] = moment{op.Call, op.Return, op}
				break
			}
		}
		next[c.User] = c.From
	}
	return at
}

// Fault is a disturbance, and what it was allowed to do.
type Fault struct {
	Name string        `json:"name"`
	On   string        `json:"on"` // whom it struck
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	Well time.Duration `json:"well"` // when all was well again; 0: never

	// Loses says that Redis may lose what was acknowledged before its end, and after Since.
	Loses bool `json:"loses,omitzero"`
	// Since is the time before which nothing that was acknowledged may be lost.
	Since time.Duration `json:"since,omitzero"`
	// Splits says that two servers may take one another's place: for a while clients may be told what is not so any
	// more.
	Splits bool `json:"splits,omitzero"`
	// Evicts says that nodes may take each other for dead, until the time Until: users may lose
	// their seats and get them back without a word.
	Evicts bool          `json:"evicts,omitzero"`
	Until  time.Duration `json:"until,omitzero"`
}

// split reports whether two servers may have answered for the room while an operation ran.
func (h *History) split(op *Op) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.splits(op) })
}

func (f Fault) splits(op *Op) bool { return f.Splits && f.From <= op.Return && op.Call <= f.Until }

// since returns since when what an operation was answered may be so: since its call, or, if it wrote nothing and
// another server may have taken the place of the one that answered, since that may have been.
func (h *History) since(op *Op) time.Duration {
	since := op.Call
	for _, f := range h.Faults {
		if f.splits(op) && (op.Action == Read || op.Outcome == Refused) {
			since = min(since, f.From)
		}
	}
	return since
}

// evicts reports whether between two times nodes may have taken each other for dead.
func (f Fault) evicts(from, to time.Duration) bool {
	return f.Evicts && f.From <= to && (f.Until == 0 || from <= f.Until)
}

// Entry is a commit in a journal, or what watchers were told in place of one: several commits at once, or the room.
type Entry struct {
	Epoch   string
	Version uint64
	Changes []Change // as everyone may know them, and replace, of a session that took over
	Mark    string   // which its text makes

	merged bool   // of watchers: it is more than the commit of that version
	from   uint64 // of it: the version before
	list   *List  // of watchers: the room at that version
}

// History is all that is known of a run.
type History struct {
	Ops      []*Op
	Events   []Event
	Conns    []Conn
	Faults   []Fault
	Rooms    []string
	Journals map[string][]Entry // by room, as they were in the end
	End      time.Duration

	// Halves says that rooms are on several servers: a move writes the room to which it takes users, and then the
	// other one. If that cannot be, it takes the first half back, and tries again, or is refused for whatever the
	// rooms say by then.
	Halves bool
}

// halfDone reports whether an operation is a move of which others may have seen something at another version than
// that of the answer, if there is one, and until when that may have begun. What was acknowledged may have been taken
// back before, and the room that users leave may be at a later version when it is found out that they have left. Of
// what was refused only the first half may have been seen, which is written to the room to which users go.
func (h *History) halfDone(op *Op) (until time.Duration, may bool) {
	switch {
	case !h.Halves || op.Action != MoveIn && op.Action != MoveOut:
		return 0, false
	case op.Outcome == Done, op.Outcome == Refused && op.Action == MoveIn:
		return op.Return, true
	}
	return 0, false
}

// Violation is something that must not have happened.
type Violation struct {
	Checker string        `json:"checker"`
	Rule    string        `json:"rule"`
	Room    string        `json:"room,omitzero"`
	At      time.Duration `json:"at,omitzero"`
	Text    string        `json:"text"`
}

// String returns it in a line or more.
func (v Violation) String() string {
	return fmt.Sprintf("%s, room %s, %.3f s: %s: %s", v.Checker, v.Room, v.At.Seconds(), v.Rule, v.Text)
}
