package room

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// MaxSeats is how many members a room without a capacity can have.
const MaxSeats = 1 << 16

// Room is the state of one room. Actions are applied to it one after the other; then all of them are kept
// ([Room.Commit]) or undone ([Room.Revert]). The zero value is not usable; see [NewRoom].
type Room struct {
	ID string
	Position

	members roster
	state   *state // never nil; immutable, so updates replace it
	pending
	names nodeNames
}

// NewRoom returns a room with the given members at that position, and takes ownership of the map.
func NewRoom(id string, at Position, members map[string]Member) *Room {
	r := &Room{ID: id, Position: at, members: roster{byUser: members}, state: new(state)}
	for user, m := range members {
		r.members.seats.take(m.Seat, user)
		r.members.seats.show(m.Seat, m)
		r.members.newest = max(r.members.newest, m.At)
	}
	r.pending.clear(r)
	return r
}

// Member returns the user's membership, and whether there is one.
func (r *Room) Member(user string) (Member, bool) {
	m, ok := r.members.byUser[user]
	return m, ok
}

// Members returns every user with their membership, in no order.
func (r *Room) Members() iter.Seq2[string, Member] { return maps.All(r.members.byUser) }

// Count returns how many members there are.
func (r *Room) Count() int { return len(r.members.byUser) }

// Snapshot returns the room's present state.
func (r *Room) Snapshot() Snapshot {
	return Snapshot{r.Epoch, r.Version, r.state.settings, r.state.data.String(), r.members.seats.view(), r.state}
}

// Renew makes the next Commit begin a new epoch, since Redis may have lost a part of the room. It replaces a lost host.
func (r *Room) Renew() {
	r.renew = true
	r.appoint()
}

// Advance applies e if it builds on the room's commit. It reports whether the room is then at e's version or a later
// one. If not, events are missing, or e is a snapshot, of another epoch, or after a commit that the room lacks.
func (r *Room) Advance(e *Event) bool {
	switch at := e.Position(); {
	case r.Is(at), at.Precedes(r.Position):
		return true
	case !r.Precedes(at), e.Commit == nil, !e.Follows(r.Position):
		return false
	}
	for _, u := range e.Commit.Updates {
		row := u.Type.row()
		if row.traits&ofMember != 0 && u.Type != KindLeave { // a kept substring would keep the whole payload in memory
			u.User, u.Session = strings.Clone(u.User), strings.Clone(u.Session)
			u.node = r.names.own(e.Commit.nodeOf(&u))
		}
		r.take(&u, row, e.Version)
	}
	r.Version, r.CommitID = e.Version, strings.Clone(e.Commit.CommitID)
	r.pending.clear(r)
	return true
}

// maxNodeNames bounds how many names of other nodes a room keeps.
const maxNodeNames = 16

// nodeNames keeps one copy of each node's name for all members. The zero value is empty.
type nodeNames []string

// own returns the copy of name that all members share.
func (n *nodeNames) own(name string) string {
	i := slices.Index(*n, name)
	if i < 0 {
		if i = len(*n); i == maxNodeNames {
			*n, i = nil, 0
		}
		*n = append(*n, strings.Clone(name))
	}
	return (*n)[i]
}

// Position identifies a room's commit. The zero value is a room without commits.
type Position struct {
	Epoch    string `json:"epoch"`   // changes when commits were lost; empty before the first commit
	Version  uint64 `json:"version"` // grows with each commit; a new epoch continues it, or begins at 1
	CommitID string `json:"mark"`    // id of the commit that made the version; empty if unknown
}

// Is reports whether p and other are the same commit, as far as their commit ids are known.
func (p Position) Is(other Position) bool {
	return p.Epoch == other.Epoch && p.Version == other.Version &&
		(p.CommitID == other.CommitID || p.CommitID == "" || other.CommitID == "")
}

// Precedes reports whether later is at a higher version of the same epoch.
func (p Position) Precedes(later Position) bool {
	return p.Epoch == later.Epoch && p.Version < later.Version
}

// Lost reports whether Redis lost commits after a read at p and before a later one at next. It does not recognise a
// loss after which a new epoch has begun.
func (p Position) Lost(next Position) bool {
	return p.Epoch == next.Epoch && !p.Is(next) && !p.Precedes(next)
}

// Gone reports whether next may lack commits up to p: they are lost, or next is of another epoch. It is false for a
// zero p.
func (p Position) Gone(next Position) bool { return p.Version > 0 && !p.Is(next) && !p.Precedes(next) }

// pending is what was applied to a room since its last Commit or Revert.
type pending struct {
	updates []Update
	before  []former // to undo each update
	base    int      // how many members there were at the last Commit or Revert
	gone    *goneList
	renew   bool   // the next Commit begins a new epoch
	confirm bool   // the next Commit counts a version although nothing has changed
	behind  uint64 // the last version that this node knows and Redis has lost: the next Commit's is higher; 0 for none
}

// former has the values that an update has replaced.
type former struct {
	state  *state
	newest int64  // as in roster
	user   string // whose membership it was; "" if the update is of the room
	member Member
	was    bool // user was a member
}

func (p *pending) clear(r *Room) {
	p.updates, p.before, p.base, p.gone = p.updates[:0], p.before[:0], r.Count(), r.state.gone
	p.renew, p.confirm, p.behind = false, false, 0
}

// update applies and records an update.
func (r *Room) update(u Update) {
	was, row := former{state: r.state, newest: r.members.newest}, u.Type.row()
	if row.traits&ofMember != 0 {
		was.user = u.User
		was.member, was.was = r.members.byUser[u.User]
		if u.Type == KindLeave && Deadline(was.member.Session) > 0 {
			u.Old = was.member.Session
		}
	}
	r.updates, r.before = append(r.updates, u), append(r.before, was)
	r.take(&r.updates[len(r.updates)-1], row, r.Next())
}

// take applies an update at a version. row is the row of its kind.
func (r *Room) take(u *Update, row *kindRow, version uint64) {
	r.state = r.state.after(u, row.field, version)
	if row.traits&ofMember != 0 {
		r.members.update(u, version)
	}
}

// setData gives the room other data: JSON, "" for none. by is the user who does it, "" for nobody.
func (r *Room) setData(by, data string) {
	if data != r.state.data.String() {
		r.update(Update{Type: kindData, User: by, Detail: &Detail{Data: jsonOf(data)}})
	}
}

// setPrivate gives a member other private data: JSON, "" for none.
func setPrivate(r *Room, user string, m Member, data string) {
	if data != m.Private.String() {
		r.update(Update{Type: kindPrivate, User: user, Seat: m.Seat, Detail: &Detail{Data: jsonOfMember(data)}})
	}
}

// Changed reports whether there is something to commit.
func (p *pending) Changed() bool {
	return len(p.updates) > 0 || p.renew || p.confirm
}

// Base returns how many members there were at the last Commit or Revert.
func (p *pending) Base() int { return p.base }

// Next returns the version that the next Commit makes.
func (r *Room) Next() uint64 { return max(r.Version, r.behind) + 1 }

// begun reports whether the room has ever had a commit, even one that Redis has lost.
func (r *Room) begun() bool { return r.Epoch != "" || r.behind > 0 }

// Renewed reports whether the next Commit begins a new epoch: Renew was called, or Recall restored something, since
// the last Commit, Revert or Advance.
func (p *pending) Renewed() bool { return p.renew }

// Confirm makes the next Commit count a version even if nothing has changed.
func (p *pending) Confirm() { p.confirm = true }

// Pending returns the commit that [Room.Commit] will make with that epoch, still without a commit id. node is the node
// of its sessions. Its Updates share the room's memory: the next action after Commit or Revert overwrites them.
func (r *Room) Pending(epoch, node string) *Commit {
	return &Commit{Position{Epoch: epoch, Version: r.Next()}, r.CommitID, node, r.updates}
}

// Commit keeps the updates as the next version of that epoch, with that commit id. Without changes it does nothing.
func (r *Room) Commit(epoch, commitID string) {
	if r.Changed() {
		r.Position = Position{epoch, r.Next(), commitID}
	}
	r.pending.clear(r)
}

// Revert undoes everything since the last Commit.
func (r *Room) Revert() {
	r.undo(0)
	r.pending.clear(r)
}

// undo undoes all updates after the first n.
func (r *Room) undo(n int) {
	for _, f := range slices.Backward(r.before[n:]) {
		r.state, r.members.newest = f.state, f.newest
		if f.user != "" {
			r.members.remove(f.user)
			if f.was {
				r.members.put(f.user, f.member)
			}
		}
	}
	r.updates, r.before = r.updates[:n], r.before[:n]
}

// HistoryEnds reports whether the pending updates turn Settings.History off.
func (r *Room) HistoryEnds() bool {
	return len(r.before) > 0 && r.before[0].state.settings.History > 0 && r.state.settings.History == 0
}

// Settings returns the room's settings, and false if the room has none yet.
func (r *Room) Settings() (s Settings, settled bool) { return r.state.settings, r.state.settled }

// appoint gives the room the host that its settings require: exactly one member as long as there are any. A host
// stays host, even while away. A room without a host costs only a comparison.
func (r *Room) appoint() {
	host := ""
	if r.state.settings.Host != "" {
		if host = r.state.host; host == "" || !r.members.has(host) {
			host = r.members.longestSeated()
		}
	}
	if host != r.state.host {
		r.update(Update{Type: kindHost, User: host})
	}
}
