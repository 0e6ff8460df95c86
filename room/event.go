package room

import (
	"slices"
	"sync"
)

// Event is what the watchers of a room are told, in the order of commits: either
// what changed from one version to the next, or (after something was missed, or
// the room began anew) the room as it stands.
//
// What an event says of a session, [Standing.After] tells.
type Event struct {
	Room    string
	Epoch   string
	Version uint64

	// From is the version that Changes build on. It is Version-1.
	From    uint64
	Changes []Change

	// Snapshot, if not nil, stands for everything before: forget what was known.
	Snapshot *Snapshot

	// Rejoin says that this node has a new name, and nothing else: every session that
	// is live here has to take it on, with [Keep].
	Rejoin bool

	wire *wireEvent // nil for a snapshot

	// Of a snapshot.
	members map[string]Member // by user
	alive   []string          // names of this node under which nobody was removed as a dead node's
	missed  []*Event          // those that came, among the events for which it stands

	once   sync.Once
	shared any
}

// SeatOf returns the user's seat by what a snapshot tells.
func (e *Event) SeatOf(user string) (seat int, seated bool) {
	m, seated := e.members[user]
	return m.Seat, seated
}

// Shared returns what the first call's make returned: something that is made of
// the event once, for all who watch, such as its encoding.
func (e *Event) Shared(make func() any) any {
	e.once.Do(func() { e.shared = make() })
	return e.shared
}

// Concerns reports whether the event can say anything of the user's sessions.
func (e *Event) Concerns(user string) bool {
	if e.wire == nil || e.Version == 1 {
		return true // a snapshot, a new name, or a room that begins
	}
	for i := range e.wire.Changes { // which are large: every watcher looks at them
		if e.wire.Changes[i].User == user {
			return true
		}
	}
	return false
}

// keeps reports whether the members of a node were all still there, but for those who
// left or were replaced, when the snapshot was read.
func (e *Event) keeps(node string) bool { return slices.Contains(e.alive, node) }
