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

// Entry is a commit in a journal. Without a journal, it is an event to watchers: one or several commits, or the room.
type Entry struct {
	Epoch   string
	Version uint64
	Changes []Change // public changes, and replace for a new session
	Mark    string   // computed from its text

	merged bool   // for watchers: it has several commits
	from   uint64 // for merged: the version before
	list   *List  // for watchers: the room at that version
}

// recalls reports whether the entry restores data that Redis had lost. It may then continue a version that only
// a node knew.
func (e *Entry) recalls() bool {
	return slices.ContainsFunc(e.Changes, func(c Change) bool { return c.Again })
}

// has reports whether the entry has a change of that type of a user.
func (e *Entry) has(kind, user string) bool {
	return slices.ContainsFunc(e.Changes, func(c Change) bool { return c.Type == kind && c.User == user })
}

// Point is a commit of a room. The zero Point is none.
type Point struct {
	Epoch   string `json:"epoch,omitzero"`
	Version uint64 `json:"version,omitzero"`
}

func (p Point) String() string {
	if p == (Point{}) {
		return "nothing"
	}
	return fmt.Sprintf("version %d of epoch %s", p.Version, short(p.Epoch))
}

func short(epoch string) string { return epoch[:min(8, len(epoch))] }

func (o *Op) point() Point    { return Point{o.Epoch, o.Version} }
func (f *Frame) point() Point { return Point{f.Epoch, f.Version} }
func (e *Entry) point() Point { return Point{e.Epoch, e.Version} }

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

func (h *History) events() map[string][]*Event {
	of := make(map[string][]*Event)
	for i := range h.Events {
		e := &h.Events[i]
		of[e.Room] = append(of[e.Room], e)
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

// interval is a time in which something happened.
type interval struct {
	from, to time.Duration
	op       *Op // its cause, or nil
}

// believed returns when the server last certainly had each connection: at its last operation with a reply, or at its
// start. Later frames do not count: they may have been under way for long after the server gave up the connection.
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
