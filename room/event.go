package room

import (
	"slices"
	"sync"
)

// Event reports to the watchers of a room, in the order of commits, either the changes from one version to the next,
// or (after a gap, or when the room has begun anew) the room as it is.
type Event struct {
	Room    string
	Epoch   string
	Version uint64

	// From is the version that Changes build on, Version-1.
	From    uint64
	Changes []Change

	// Snapshot, if not nil, replaces everything before.
	Snapshot *Snapshot

	// Rejoin reports only that this node has a new name: every live session here has to adopt it, with [Keep].
	Rejoin bool

	// Commit is what Changes show; its Updates have the sessions, too. Nil for a snapshot or a new name.
	Commit *Commit

	// Missed are the events that were buffered until the snapshot was read.
	Missed []*Event

	// Only of a snapshot:
	commitID string
	members  map[string]Member // by user
	alive    []string          // this node's names whose members nobody has evicted

	once   sync.Once
	shared any
}

// SnapshotEvent returns the event that replaces everything before r, and takes ownership of r. alive are this node's
// names whose members nobody had evicted when r was read. missed are the events that were buffered until then: they
// show replaced sessions.
func SnapshotEvent(r *Room, alive []string, missed []*Event) *Event {
	s := r.Snapshot()
	return &Event{
		Room: r.ID, Epoch: s.Epoch, Version: s.Version, Snapshot: &s,
		commitID: r.CommitID, members: r.members.byUser, alive: alive, Missed: missed,
	}
}

// Position returns the room's position after the event.
func (e *Event) Position() Position {
	at := Position{e.Epoch, e.Version, e.commitID}
	if e.Commit != nil {
		at.CommitID = e.Commit.CommitID
	}
	return at
}

// Follows reports whether the event's changes build on the room at a position, which has to be of the same epoch. An
// equal version is not enough: Redis may have lost the commit at that version, and have another one in its place.
func (e *Event) Follows(at Position) bool {
	return e.From == at.Version && !e.Forks(at)
}

// Forks reports whether the event builds on another commit than the one at that position, though of the same version.
func (e *Event) Forks(at Position) bool {
	return e.Epoch == at.Epoch && e.From == at.Version && e.Commit != nil &&
		e.Commit.Prev != "" && at.CommitID != "" && e.Commit.Prev != at.CommitID
}

// Member returns a member in a snapshot, and whether the user is one.
func (e *Event) Member(user string) (Member, bool) {
	m, found := e.members[user]
	return m, found
}

// Shared returns a value that the first call makes and all calls share, such as an encoding of the event.
func (e *Event) Shared(make func() any) any {
	e.once.Do(func() { e.shared = make() })
	return e.shared
}

// LeaveOf returns the user's first leave after that version or in another epoch, also among the missed events of a
// snapshot. If these have none, it returns the removal that the snapshot remembers.
func (e *Event) LeaveOf(user, epoch string, version uint64) (leave Gone, found bool) {
	for _, missed := range e.Missed {
		if leave, found = missed.LeaveOf(user, epoch, version); found {
			return leave, true
		}
	}
	if e.Snapshot != nil {
		return e.Snapshot.Gone(user)
	}
	if e.Epoch == epoch && e.Version <= version {
		return leave, false
	}
	if e.Commit == nil {
		return leave, false
	}
	for i := range e.Commit.Updates {
		if u := &e.Commit.Updates[i]; u.Type == KindLeave && u.User == user {
			return u.gone(e.Version), true
		}
	}
	return leave, false
}

// Concerns reports whether the event can affect the user's sessions.
func (e *Event) Concerns(user string) bool {
	if e.Commit == nil || e.Version == 1 {
		return true // a snapshot, a new name, or a room that begins
	}
	for i := range e.Commit.Updates { // by index: they are large, and every watcher looks at them
		switch u := &e.Commit.Updates[i]; {
		case u.User == user && (u.Type.OfMember() || u.Type == kindBan),
			u.Type == kindSettings && u.detail().Settings != nil && u.Settings.Watch != "":
			return true
		}
	}
	return false
}

// NodeOf returns the node of a user's active session, if the event shows it.
func (e *Event) NodeOf(user string) (node string, shown bool) {
	if m, found := e.members[user]; found || e.Commit == nil {
		return m.Node, found
	}
	for i := range e.Commit.Updates {
		if u := &e.Commit.Updates[i]; u.User == user && u.Type.OfSession() {
			node, shown = e.Commit.nodeOf(u), u.Type != kindAway // which any node may report
		}
	}
	return node, shown
}

// Keeps reports whether nobody had evicted a node's members when the snapshot was read. If so, a missing user has left
// or was replaced.
func (e *Event) Keeps(node string) bool { return slices.Contains(e.alive, node) }

// Occupant is a user on a seat.
type Occupant struct {
	User string
	Seat int  // counted from 0
	Away bool // the user's connection is lost, or the user has not come yet; the seat is kept for a while

	Ready bool   // set by the user
	Data  string // set by the user, as JSON; empty for none
}

// Snapshot is a room at one version. It is cheap, and does not change. The zero value is a room without commits.
type Snapshot struct {
	Epoch   string // empty for a room without commits
	Version uint64

	Settings Settings
	Data     string // of the room, as JSON; empty for none

	view  *seatView
	state *state // nil in the zero value
}

// Count returns how many members there are.
func (s Snapshot) Count() int {
	if s.view == nil {
		return 0
	}
	return s.view.count
}

// Users returns the members by seat. The slice is shared: do not change it.
func (s Snapshot) Users() []Occupant {
	if s.view == nil {
		return nil
	}
	return s.view.occupants()
}

// Shared returns a value that the first call makes, such as an encoding of the list. It must depend on the members
// only: later snapshots share it until a member changes.
func (s Snapshot) Shared(make func() any) any {
	if s.view == nil {
		return make()
	}
	s.view.memo.Do(func() { s.view.shared = make() })
	return s.view.shared
}

// MayWatch fails with [ErrBanned] or [ErrForbidden] unless a user, "" for unknown, may see room id at the time now, in
// ms since 1970. Members may, unless they are banned.
func (s Snapshot) MayWatch(id, user string, now int64) error {
	rule := s.WatchRule(user)
	if user != "" && slices.ContainsFunc(s.Users(), func(o Occupant) bool { return o.User == user }) {
		rule.onlyMembers = false
	}
	return rule.Check(id, user, now)
}

// WatchRule decides whether one user who is no member may watch a room. The zero value allows it.
type WatchRule struct {
	onlyMembers bool
	until       int64 // of a ban, in ms since 1970; 0 for none
}

// WatchRule returns the room's rule for a user.
func (s Snapshot) WatchRule(user string) WatchRule {
	if s.state == nil {
		return WatchRule{}
	}
	return WatchRule{s.Settings.Watch != "", s.state.bans[user]}
}

// After returns the rule for a user after an event.
func (w WatchRule) After(e *Event, user string) WatchRule {
	if e.Snapshot != nil {
		return e.Snapshot.WatchRule(user)
	}
	if e.Commit == nil {
		return w
	}
	for i := range e.Commit.Updates {
		switch u := &e.Commit.Updates[i]; {
		case u.Type == kindBan && u.User == user:
			w.until = u.detail().Until
		case u.Type == kindSettings && u.detail().Settings != nil:
			w.onlyMembers = u.Settings.Watch != ""
		}
	}
	return w
}

// Check fails with [ErrBanned] or [ErrForbidden] unless the user may watch room id at the time now, in ms since 1970.
func (w WatchRule) Check(id, user string, now int64) error {
	if err := checkBan(id, user, w.until, now); err != nil || !w.onlyMembers {
		return err
	}
	return onlyMembers(id)
}

func onlyMembers(id string) error {
	return Forbid("the settings of room %s let only members watch it", id)
}

// Host returns the host of the room, "" for none.
func (s Snapshot) Host() string {
	if s.state == nil {
		return ""
	}
	return s.state.host
}

// Private returns the private data that v may see, by user; nil for none.
func (s Snapshot) Private(v Viewer) map[string]string {
	if s.view == nil || s.view.private == 0 {
		return nil
	}
	return s.view.privateFor(v)
}

// Timers returns the room's timers.
func (s Snapshot) Timers() *Timers {
	if s.state == nil {
		return nil
	}
	return s.state.timers
}

// Gone returns why a user who is not in the room was taken out. found is false if the room does not know.
func (s Snapshot) Gone(user string) (g Gone, found bool) {
	if s.state == nil {
		return g, false
	}
	return s.state.gone.of(user)
}
