package room

import "sync"

// Event is what the watchers of a room are told, in the order of commits: either
// what changed from one version to the next, or (after something was missed, or
// the room began anew) the room as it stands.
type Event struct {
	Room    string
	Epoch   string
	Version uint64

	// From is the version that Changes build on. It is Version-1.
	From     uint64
	Changes  []Change
	Replaced []Replaced

	// Snapshot, if not nil, stands for everything before: forget what was known.
	Snapshot *Snapshot

	// Rejoin says that this node has a new name: every session that is live here
	// has to join its rooms again, which keeps their seats.
	Rejoin bool

	wire   *wireEvent // nil for a snapshot
	once   sync.Once
	shared any
}

// Shared returns what the first call's make returned: something that is made of
// the event once, for all who watch, such as its encoding.
func (e *Event) Shared(make func() any) any {
	e.once.Do(func() { e.shared = make() })
	return e.shared
}
