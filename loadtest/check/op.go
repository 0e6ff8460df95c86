package check

import (
	"fmt"
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
	Left     int       `json:"left,omitzero"` // for a MoveIn: id of its MoveOut
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
	case Leave, SetData, Say, SetMember, SetPrivate, Deal, SetTimer:
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
