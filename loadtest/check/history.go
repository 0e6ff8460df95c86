// Package check judges what clients of a room server were told while its nodes and its Redis were disturbed.
//
// A [History] has every call and return, every event, and the rooms' final journals. Two independent checkers
// judge it:
//
//   - [Witness] replays each journal by the model of the audit (internal/model), and compares it with what the
//     clients know: the journal has each acknowledged action exactly once; replies and events agree with it;
//     and an action that started after another one was answered comes later.
//   - [Linearize] does not use the journals, except for users removed with a dead node. It asks porcupine
//     whether the calls of a room can have happened one after the other, each between its call and its return,
//     by a sequential model of a room.
//
// Both judge by epoch. Where Redis lost acknowledged commits, a new epoch starts. Commits of the old one that
// the journal lacks are counted; they are a violation unless a fault was allowed to lose them ([Fault.Loses]).
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
	Deal       = "deal" // private data for Users, all of them or none
	Say        = "say"
	SetTimer   = "timer"      // sets the timer Name, which fires once and sets the data to Value, if any
	StopTimer  = "stop timer" // stops the timer Name
	Match      = "match"      // joins any room with the labels of Settings, or a new one
	Swap       = "swap"       // exchanges the seats of both Users
	Shuffle    = "shuffle"    // permutes the seats of all
	Configure  = "configure"
	Kick       = "kick"
	Close      = "close"
	Reserve    = "reserve"
	Release    = "release"
	MoveOut    = "move out" // the half of a move in the old room
	MoveIn     = "move in"
)

// Outcome is the result of an operation.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // nothing was written
	Unknown Outcome = "unknown" // it may have been written, even later
)

// Member is a user on a seat.
type Member struct {
	User  string `json:"user"`
	Seat  int    `json:"seat"`
	Away  bool   `json:"away,omitzero"`
	Ready bool   `json:"ready,omitzero"`
	Data  string `json:"data,omitzero"`
}

// Settings are the settings of a room that limit its members and their rights.
type Settings struct {
	Capacity int    `json:"capacity"`
	Closed   bool   `json:"closed,omitzero"`
	Host     string `json:"host,omitzero"` // with Longest, one of the members is always the host
	Labels   Labels `json:"labels,omitzero"`
}

// Longest is the policy for choosing a host.
const Longest = "longest"

// Labels are a room's labels: JSON in the form of Redis, or "".
type Labels string

// MarshalJSON returns the JSON.
func (l Labels) MarshalJSON() ([]byte, error) { return []byte(cmp.Or(l, "null")), nil }

// UnmarshalJSON accepts any JSON.
func (l *Labels) UnmarshalJSON(text []byte) error {
	*l = Labels(text)
	return nil
}

// List is a room in the view of a client.
type List struct {
	Users    []Member `json:"users"`
	Data     string   `json:"data,omitzero"`
	Settings Settings `json:"settings"`
	Host     string   `json:"host,omitzero"`   // the user who is the host
	Timers   []string `json:"timers,omitzero"` // sorted names

	All     bool              `json:"all,omitzero"`     // Private is that of all
	For     string            `json:"for"`              // the user who got the list
	Private map[string]string `json:"private,omitzero"` // by user, as far as For may see it
}

// Op is a call with its return. Times are since the start of the run, by the monotonic clock of the process
// that has all clients.
type Op struct {
	ID      int           `json:"op"`
	Process string        `json:"process"` // the user, or the administrator
	Node    int           `json:"node"`
	Room    string        `json:"room"` // empty for a Match, or a party without a room, until it has found one
	Action  string        `json:"action"`
	Call    time.Duration `json:"call"`
	Return  time.Duration `json:"return"`
	Outcome Outcome       `json:"outcome"`
	Code    string        `json:"code,omitzero"` // of a refusal

	// The request.
	Asked    *int      `json:"asked,omitzero"`   // seat
	Name     string    `json:"name,omitzero"`    // of a timer
	AsHost   bool      `json:"as_host,omitzero"` // by a player whose right depends on being the host
	Value    string    `json:"value,omitzero"`   // data or text, unique among operations
	Users    []string  `json:"users,omitzero"`   // users concerned, in addition to Process
	Expect   *uint64   `json:"expect,omitzero"`  // version
	InEpoch  string    `json:"in_epoch,omitzero"`
	Settings *Settings `json:"settings,omitzero"`
	Left     int       `json:"left,omitzero"` // for a MoveIn: id of the operation by which the user leaves the old room
	Part     bool      `json:"part,omitzero"` // belongs to an action that is counted as another operation

	// The reply.
	Epoch   string `json:"epoch,omitzero"`
	Version uint64 `json:"version,omitzero"`
	Seat    int    `json:"seat,omitzero"`
	Count   int    `json:"count,omitzero"`
	Now     string `json:"now,omitzero"` // current data, if a compare-and-set was refused
	List    *List  `json:"list,omitzero"`
}

// writes reports whether every execution of the action changes the room.
func (o *Op) writes() bool {
	switch o.Action {
	case SetData, Say, SetMember, SetPrivate, Deal, SetTimer:
		return true
	}
	return false
}

// matches reports whether the operation accepts any room with the labels of Settings.
func (o *Op) matches() bool { return o.Action == Match || o.Action == Reserve && o.Settings != nil }

// hidden reports whether watchers do not see the operation's effect.
func (o *Op) hidden() bool {
	return o.Action == SetPrivate || o.Action == Deal || o.Action == Say && len(o.Users) > 0
}

// Acts reports whether the operation counts as an action. Reads and parts of other operations do not.
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

// Change is one change in an event or a journal.
type Change struct {
	Type     string    `json:"type"`
	User     string    `json:"user,omitzero"`
	Seat     int       `json:"seat,omitzero"`
	Away     bool      `json:"away,omitzero"`
	Reason   string    `json:"reason,omitzero"`
	Text     string    `json:"text,omitzero"`
	Target   string    `json:"target,omitzero"`
	Data     string    `json:"data,omitzero"` // of a member, or private: "" if unchanged, null removes it
	Ready    *bool     `json:"ready,omitzero"`
	To       []string  `json:"to,omitzero"`
	Settings *Settings `json:"settings,omitzero"`
	Name     string    `json:"name,omitzero"` // of a timer
	Set      bool      `json:"set,omitzero"`  // of a countdown: the timer was set, not cancelled

	// Only in journals. Times are in ms since 1970, by the clock of Redis.
	At    int64 `json:"-"` // of a join
	Until int64 `json:"-"` // of a ban
	// the change restores what Redis lost, or a member of a closed room whom a failure removed
	Again bool `json:"-"`
}

// Event is a message to a connection other than a reply: changes from one version to another, the whole room,
// or (Lost) the end of the membership.
type Event struct {
	Conn int           `json:"conn"` // number of the user's connection in the run
	User string        `json:"user"`
	At   time.Duration `json:"at"`
	*Frame
}

// Frame is the content of an Event. Many connections may share it, so it must not be changed.
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

// Conn is a connection of a user, for as long as it received frames.
type Conn struct {
	User string        `json:"user"`
	Node int           `json:"node"`
	From time.Duration `json:"from"`
	Last time.Duration `json:"last"` // time of the last frame
	Open bool          `json:"open"` // at the end of the run

	// Watches says that the user is a watcher, not a player. Events to watchers replace the journal of a room
	// that has none.
	Watches bool `json:"watches,omitzero"`
}

// interval is a time in which something happened.
type interval struct {
	from, to time.Duration
	op       *Op // its cause, or nil
}

// ops returns the operations that belong to each room, or may, in the order of their calls.
func (h *History) ops() map[string][]*Op {
	of := make(map[string][]*Op)
	for _, room := range h.Rooms {
		of[room] = nil
	}
	for _, op := range h.Ops {
		switch {
		case op.Room != "":
			of[op.Room] = append(of[op.Room], op)
		case op.Outcome == Unknown: // its room is unknown
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

// believed returns when the server last certainly had each connection: at its last operation with a reply, or
// at its start. Later frames do not count: they may have been under way for long after the server gave up the
// connection.
func (h *History) believed() []interval {
	of := h.answered()
	next := make(map[string]time.Duration) // by user: start of the next connection
	at := make([]interval, len(h.Conns))
	for i, c := range slices.Backward(h.Conns) {
		ops := of[c.User]
		end, again := next[c.User]
		at[i] = interval{from: c.From, to: c.From}
		called := func(op *Op, at time.Duration) int { return cmp.Compare(op.Call, at) }
		for j, _ := slices.BinarySearchFunc(ops, c.Last+1, called); j > 0 && ops[j-1].Call >= c.From; j-- {
			if op := ops[j-1]; !again || op.Return < end {
				at[i] = interval{op.Call, op.Return, op}
				break
			}
		}
		next[c.User] = c.From
	}
	return at
}

// Fault is a fault with its allowed effects.
type Fault struct {
	Name string        `json:"name"`
	On   string        `json:"on"` // its target
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	Well time.Duration `json:"well"` // time of recovery; 0: never

	// Loses says that Redis may lose data acknowledged after Since and before the end.
	Loses bool `json:"loses,omitzero"`
	// Since is the start of Loses.
	Since time.Duration `json:"since,omitzero"`
	// Splits says that one server may replace another: for a while clients may see old data.
	Splits bool `json:"splits,omitzero"`
	// Evicts says that nodes may take each other for dead, up to Until: users may lose their seats and get them
	// back without notice.
	Evicts bool          `json:"evicts,omitzero"`
	Until  time.Duration `json:"until,omitzero"`
}

// split reports whether two servers may have answered for the room during an operation.
func (h *History) split(op *Op) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.splits(op) })
}

func (f Fault) splits(op *Op) bool { return f.Splits && f.From <= op.Return && op.Call <= f.Until }

// since returns from when the reply to an operation may be true: from its call, or, for a read while one server
// may have replaced another, from that time.
func (h *History) since(op *Op) time.Duration {
	since := op.Call
	for _, f := range h.Faults {
		if f.splits(op) && (op.Action == Read || op.Outcome == Refused) {
			since = min(since, f.From)
		}
	}
	return since
}

// evicts reports whether nodes may have taken each other for dead between two times.
func (f Fault) evicts(from, to time.Duration) bool {
	return f.Evicts && f.From <= to && (f.Until == 0 || from <= f.Until)
}

// Entry is a commit in a journal. Without a journal, it is an event to watchers: one or several commits, or the
// room.
type Entry struct {
	Epoch   string
	Version uint64
	Changes []Change // public changes, and replace for a new session
	Mark    string   // computed from its text

	merged bool   // for watchers: it has several commits
	from   uint64 // for merged: the version before
	list   *List  // for watchers: the room at that version
}

// History is the record of a run.
type History struct {
	Ops      []*Op
	Events   []Event
	Conns    []Conn
	Faults   []Fault
	Rooms    []string
	Journals map[string][]Entry // by room, at the end of the run
	End      time.Duration

	// Halves says that rooms are on several servers. A move then writes the new room first, and the old room
	// next. If the second write fails, it undoes the first one, and tries again, or is refused.
	Halves bool
}

// halfDone reports whether an operation is a move that others may have seen half done, at another version than
// that of the answer, and until when such a view may have started. An acknowledged move may have been undone
// before. The old room may be at a later version when the server finds that the users have left it. Of a
// refused move, others may have seen only the first half, in the new room.
func (h *History) halfDone(op *Op) (until time.Duration, may bool) {
	switch {
	case !h.Halves || op.Action != MoveIn && op.Action != MoveOut:
		return 0, false
	case op.Outcome == Done, op.Outcome == Refused && op.Action == MoveIn:
		return op.Return, true
	}
	return 0, false
}

// Violation is a broken rule.
type Violation struct {
	Checker string        `json:"checker"`
	Rule    string        `json:"rule"`
	Room    string        `json:"room,omitzero"`
	At      time.Duration `json:"at,omitzero"`
	Text    string        `json:"text"`
}

// String describes the violation in one or more lines.
func (v Violation) String() string {
	return fmt.Sprintf("%s, room %s, %.3f s: %s: %s", v.Checker, v.Room, v.At.Seconds(), v.Rule, v.Text)
}
