package room

import (
	"cmp"
	"iter"
	"maps"
	"strings"
)

// MaxSeats is how many members a room without a capacity can have.
const MaxSeats = 1 << 16

// detached begins the session of a member who is disconnected and may come back.
const detached = "~"

// reserved begins that of a member who has not come yet; no session begins with a +.
const reserved = detached + "+"

// Member is a user's place in a room, in the form in which Redis holds it.
type Member struct {
	Seat    int    `json:"seat"`    // counted from 0
	Session string `json:"session"` // the user's active one; after a ~ if it is detached
	Node    string `json:"node"`    // the node of that session
	At      int64  `json:"at"`      // when it joined, in ms since 1970, by its node's clock; later than who joined before

	Ready bool   `json:"ready,omitzero"` // the user has said so
	Data  *Value `json:"data,omitzero"`  // what the user has set; nil for none

	Private *Value `json:"private,omitzero"` // what only the user is shown, and authority; nil for none
}

// SessionID returns the user's active session, detached or not, or the one by which the
// seat is reserved.
func (m Member) SessionID() string {
	if m.Reserved() {
		return m.Session[len(reserved):]
	}
	return strings.TrimPrefix(m.Session, detached)
}

// Reserved reports whether the seat is reserved for the user, who has not come yet.
func (m Member) Reserved() bool { return strings.HasPrefix(m.Session, reserved) }

// Detached reports whether the session is disconnected and may come back.
func (m Member) Detached() bool { return strings.HasPrefix(m.Session, detached) }

// Room is the state of one room. Actions are applied to it one after the other; then all of
// them are kept ([Room.Commit]) or undone ([Room.Revert]). Its zero value is not usable; see
// [NewRoom].
type Room struct {
	ID string
	Position

	members roster
	state   *state // never nil, and does not change: another one takes its place
	pending
	names nodeNames
}

// NewRoom returns a room with the given members at that position. It takes the map over.
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

// Member returns the user's place, and whether there is one.
func (r *Room) Member(user string) (Member, bool) {
	m, ok := r.members.byUser[user]
	return m, ok
}

// Members returns every user and their place, in no order.
func (r *Room) Members() iter.Seq2[string, Member] { return maps.All(r.members.byUser) }

// Count returns how many members there are.
func (r *Room) Count() int { return len(r.members.byUser) }

// Snapshot returns the room as it is now.
func (r *Room) Snapshot() Snapshot {
	return Snapshot{r.Epoch, r.Version, r.state.settings, r.state.data.String(), r.members.seats.view(), r.state}
}

// Renew makes the next Commit begin a new epoch, since Redis may have lost something: the host, for instance.
func (r *Room) Renew() {
	r.renew = true
	r.appoint()
}

// Advance brings the room from the version before an event to the event's. It reports
// whether the room is at that version or a later one now; if not, something is missing.
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
		r.state = r.state.heed(&u, e.Version)
		if !u.Type.OfMember() {
			continue
		}
		node := ""
		if u.Type != KindLeave { // what stays must not keep the whole payload in memory
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

// nodeNames keeps one copy of each node's name for all of its members. The zero value is
// empty.
type nodeNames map[string]string

// own returns the copy of name that is kept.
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
