package room

import (
	"slices"
	"sync"
)

// Event is what the watchers of a room hear, in the order of commits: either what changed
// from one version to the next, or (after something was missed, or the room began anew)
// the room as it is.
//
// [Standing.After] says what an event means for a session.
type Event struct {
	Room    string
	Epoch   string
	Version uint64

	// From is the version that Changes build on. It is Version-1.
	From    uint64
	Changes []Change

	// Snapshot, if not nil, replaces everything before.
	Snapshot *Snapshot

	// Rejoin says that this node has a new name, and nothing else: every session that
	// is live here has to take it on, with [Keep].
	Rejoin bool

	commit *Commit // nil for a snapshot or a new name

	// Of a snapshot.
	mark    string
	members map[string]Member // by user
	alive   []string          // names of this node whose members nobody has removed as a dead node's
	missed  []*Event          // events up to the snapshot that came all the same
	gone    *goneList

	once   sync.Once
	shared any
}

// SnapshotEvent returns the event that replaces everything before r. It takes r over. alive
// are the names of this node whose members nobody had removed as a dead node's when r was
// read. missed are events up to r that came all the same; they show who was replaced.
func SnapshotEvent(r *Room, alive []string, missed []*Event) *Event {
	s := r.Snapshot()
	return &Event{
		Room: r.ID, Epoch: s.Epoch, Version: s.Version, Snapshot: &s,
		mark: r.Mark, members: r.members.byUser, alive: alive, missed: missed, gone: r.state.gone,
	}
}

// RejoinEvent returns the event that says that this node has a new name, to those who
// know the room of that id at that position.
func RejoinEvent(id string, at Position) *Event {
	return &Event{Room: id, Epoch: at.Epoch, Version: at.Version, From: at.Version, Rejoin: true}
}

// Position returns the room's position after the event.
func (e *Event) Position() Position {
	at := Position{e.Epoch, e.Version, e.mark}
	if e.commit != nil {
		at.Mark = e.commit.Mark
	}
	return at
}

// SeatOf returns the user's seat, if a snapshot has one.
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

// LeaveOf returns the last leave of a user that the event has, also among those that a snapshot
// stands for.
func (e *Event) LeaveOf(user string) (leave Change, found bool) {
	if g, ok := e.gone.of(user); ok {
		return Change{Type: KindLeave, User: user, Reason: g.Reason, Detail: &Detail{Text: g.Text, Target: g.Target}}, true
	}
	for _, missed := range e.missed {
		if c, ok := missed.LeaveOf(user); ok {
			leave, found = c, true
		}
	}
	for _, c := range e.Changes {
		if c.Type == KindLeave && c.User == user {
			leave, found = c, true
		}
	}
	return leave, found
}

// Concerns reports whether the event can say anything of the user's sessions.
func (e *Event) Concerns(user string) bool {
	if e.commit == nil || e.Version == 1 {
		return true // a snapshot, a new name, or a room that begins
	}
	for i := range e.commit.Updates { // by index: they are large, and every watcher looks at them
		if u := &e.commit.Updates[i]; u.User == user && u.OfMember() {
			return true
		}
	}
	return false
}

// keeps reports whether nobody had removed the members of a node as a dead node's when the
// snapshot was read. If so, a user who is missing has left or was replaced.
func (e *Event) keeps(node string) bool { return slices.Contains(e.alive, node) }
