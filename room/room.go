package room

import (
	"cmp"
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
	r.pending.clear(len(members), nil)
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

// Renew makes the next Commit begin a new epoch, since Redis may have lost something, such as the host.
func (r *Room) Renew() {
	r.renew = true
	r.appoint()
}

// Advance applies an event to the version before it. It reports whether the room is then at the event's version or a
// later one; otherwise something is missing.
func (r *Room) Advance(e *Event) bool {
	switch r.Compare(e.Position()) {
	case Same, Earlier:
		return true
	case Forked, OtherEpoch:
		return false
	}
	if e.commit == nil || !e.Follows(r.Position) {
		return false
	}
	for _, u := range e.commit.Updates {
		ofMember := u.Type.OfMember()
		r.state = r.state.heed(&u, ofMember, e.Version)
		if !ofMember {
			continue
		}
		node := ""
		if u.Type != KindLeave { // a kept substring would keep the whole payload in memory
			u.User, u.Session, node = strings.Clone(u.User), strings.Clone(u.Session), r.names.own(cmp.Or(u.detail().Node, e.commit.Node))
		}
		r.members.update(node, u, e.Version)
	}
	r.Version, r.CommitID = e.Version, strings.Clone(e.commit.CommitID)
	r.pending.clear(r.Count(), r.state.gone)
	return true
}

// maxNodeNames bounds how many names of other nodes a room keeps.
const maxNodeNames = 16

// nodeNames keeps one copy of each node's name for all members. The zero value is empty.
type nodeNames map[string]string

// own returns the kept copy of name.
func (n *nodeNames) own(name string) string {
	kept, ok := (*n)[name]
	if !ok {
		if len(*n) == maxNodeNames || *n == nil {
			*n = make(nodeNames)
		}
		kept = strings.Clone(name)
		(*n)[kept] = kept
	}
	return kept
}

// Position identifies a room's commit. The zero value is a room without commits.
type Position struct {
	Epoch    string `json:"epoch"`   // changes when commits were lost; empty before the first commit
	Version  uint64 `json:"version"` // grows with each commit; a new epoch continues it, or begins at 1
	CommitID string `json:"mark"`    // id of the commit that made the version; empty if unknown
}

// Order is the relation of a position that was read later to one known before.
type Order int

// The results of [Position.Compare].
const (
	// Same: both are the same commit.
	Same Order = iota
	// Later: commits have been added.
	Later
	// Earlier: the epoch's last commits are missing.
	Earlier
	// Forked: the versions are equal, but of different commits.
	Forked
	// OtherEpoch: the versions cannot be compared.
	OtherEpoch
)

// Compare returns how next relates to p. Every decision about "has this room gone back?" is made here.
func (p Position) Compare(next Position) Order {
	switch {
	case next.Epoch != p.Epoch:
		return OtherEpoch
	case next.Version > p.Version:
		return Later
	case next.Version < p.Version:
		return Earlier
	case next.CommitID != p.CommitID && next.CommitID != "" && p.CommitID != "":
		return Forked
	}
	return Same
}

// Lost reports whether Redis has lost commits between a read at p and a later one at next. It does not recognise
// losses with a new epoch; see [Position.Compare].
func (p Position) Lost(next Position) bool {
	order := p.Compare(next)
	return order == Earlier || order == Forked
}

// Gone reports whether commits known at p are missing at next: lost, or in another epoch. A zero p misses nothing.
func (p Position) Gone(next Position) bool {
	return p.Version > 0 && (p.Lost(next) || p.Compare(next) == OtherEpoch)
}

// pending is what was applied to a room since its last Commit or Revert.
type pending struct {
	updates []Update
	before  []former // to undo each update
	base    int      // how many members there were at the last Commit or Revert
	gone    *goneList
	renew   bool   // the next Commit begins a new epoch
	confirm bool   // the next Commit counts a version although nothing has changed
	behind  uint64 // the last version that Redis has lost and a node knows, else 0; the next Commit's is higher
}

// former is the state before an update.
type former struct {
	state  *state // of the room; nil if unchanged
	user   string // whom the update is about; "" for nobody
	member Member
	was    bool  // user was a member
	newest int64 // as in roster
}

func (p *pending) clear(members int, gone *goneList) {
	p.updates, p.before, p.base, p.gone = p.updates[:0], p.before[:0], members, gone
	p.renew, p.confirm, p.behind = false, false, 0
}

// update applies and records an update of a user. node is the node of the user's session.
func (r *Room) update(node string, u Update) {
	m, was := r.members.byUser[u.User]
	r.updates = append(r.updates, u)
	r.before = append(r.before, former{r.state, u.User, m, was, r.members.newest})
	r.members.update(node, u, r.Next())
	r.state = r.state.heed(&u, true, r.Next())
}

func (r *Room) updateState(u Update) {
	r.updates = append(r.updates, u)
	r.before = append(r.before, former{state: r.state})
	r.state = r.state.heed(&u, false, r.Next())
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

// Pending returns the commit that Commit with that epoch will make, without its commit id, for node. Its Updates
// share the room's memory: the next action after Commit or Revert overwrites them.
func (r *Room) Pending(epoch, node string) *Commit {
	return &Commit{Position{Epoch: epoch, Version: r.Next()}, r.CommitID, node, r.updates}
}

// Commit keeps the updates as the next version of that epoch, with that commit id. Without changes it does nothing.
func (r *Room) Commit(epoch, commitID string) {
	if r.Changed() {
		r.Position = Position{epoch, r.Next(), commitID}
	}
	r.pending.clear(r.Count(), r.state.gone)
}

// Revert undoes everything since the last Commit.
func (r *Room) Revert() {
	r.undo(0)
	r.pending.clear(r.Count(), r.state.gone)
}

// undo undoes all updates after the first n.
func (r *Room) undo(n int) {
	for _, f := range slices.Backward(r.before[n:]) {
		if f.state != nil {
			r.state = f.state
		}
		if f.user != "" {
			r.members.newest = f.newest
			r.members.remove(f.user)
			if f.was {
				r.members.put(f.user, f.member)
			}
		}
	}
	r.updates, r.before = r.updates[:n], r.before[:n]
}

// HistoryEnds reports whether the pending updates end the keeping of messages.
func (r *Room) HistoryEnds() bool {
	return len(r.before) > 0 && r.before[0].state != nil && r.before[0].state.settings.History > 0 && r.state.settings.History == 0
}

// Settings returns the room's settings, and false if the room has none yet.
func (r *Room) Settings() (s Settings, settled bool) { return r.state.settings, r.state.settled }

// appoint gives the room the host that its settings require: exactly one member as long as there are any. A host
// stays host, even while away. A room without a host costs only a comparison.
func (r *Room) appoint() {
	host := ""
	if r.state.settings.Host != HostNone {
		if host = r.state.host; host == "" || !r.members.has(host) {
			host = r.members.longestSeated()
		}
	}
	if host != r.state.host {
		r.updateState(Update{Type: kindHost, User: host})
	}
}
