package room

import (
	"cmp"
	"iter"
	"maps"
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
