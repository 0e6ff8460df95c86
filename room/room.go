package room

import (
	"fmt"
	"slices"
	"strings"
)

// MaxSeats is how many members a room without a capacity can have.
const MaxSeats = 1 << 16

// Rules are what the rooms of a coordinator allow.
type Rules struct {
	// Capacity is how many members a room may have. Zero means [MaxSeats].
	Capacity int

	// Duplicate says which session of a user stays when a second one joins.
	Duplicate Duplicate
}

// Duplicate says which session of a user stays in a room.
type Duplicate int

const (
	// Replace lets a newer session take the seat over.
	Replace Duplicate = iota
	// Reject refuses it with ErrDuplicate, unless the older one is detached, or the
	// lease of its node is over.
	Reject
)

// detached marks the session of a member who may come back.
const detached = "~"

func (r Rules) seats() int {
	if r.Capacity == 0 {
		return MaxSeats
	}
	return r.Capacity
}

// Member is a user's place in a room, in the form in which Redis holds it.
type Member struct {
	Seat    int    `json:"seat"`    // counted from 0
	Session string `json:"session"` // the one that speaks for the user
	Node    string `json:"node"`    // the node of that session
	At      int64  `json:"at"`      // when it joined, in ms since 1970, by its node's clock
}

// Change is what a committed action did, as everyone may know it.
type Change struct {
	Type Kind   `json:"type"`
	User string `json:"user"`
	Seat int    `json:"seat"` // taken by a join, freed by a leave
}

// Occupant is a user on a seat.
type Occupant struct {
	User string
	Seat int
}

// Snapshot is a room at one version. It costs little, and does not change. The zero
// value is a room that nobody has ever joined.
type Snapshot struct {
	Epoch   string // empty for a room that nobody has ever joined
	Version uint64
	view    *view
}

// Count returns how many members there are.
func (s Snapshot) Count() int {
	if s.view == nil {
		return 0
	}
	return s.view.count
}

// Users returns who is in the room, by seat. The slice is shared: do not change it.
func (s Snapshot) Users() []Occupant {
	if s.view == nil {
		return nil
	}
	return s.view.occupants()
}

// Shared returns what the first call's make returned: something that is made of
// the snapshot once, for all who are shown it, such as its encoding.
func (s Snapshot) Shared(make func() any) any {
	if s.view == nil {
		return make()
	}
	s.view.memo.Do(func() { s.view.shared = make() })
	return s.view.shared
}

// Room is the pure state of one room: no I/O, no clock, no locks. Actions are
// applied to it one after the other; then either all of them stand (Commit), or
// none (Revert). Its zero value is not usable; see [NewRoom].
type Room struct {
	ID      string
	Epoch   string // empty as long as nobody has ever joined
	Version uint64

	mark    string // of the commit that made it this version, unlike any other's; empty if not known
	members map[string]Member
	seats   seating
	size    int          // members at the last Commit or Revert
	changes []wireChange // since the last Commit or Revert
	before  []former     // by which Revert undoes them, in order
	renewed bool         // the next Commit begins a new epoch
	confirm bool         // the next Commit counts a version although nothing has changed

	nodes map[string]string // names of other nodes; see nodeName
}

// former is a user's place before a change.
type former struct {
	user   string
	member Member
	was    bool
}

// NewRoom returns a room with the given members, at the given epoch and version.
// It takes the map over.
func NewRoom(id, epoch string, version uint64, members map[string]Member) *Room {
	r := &Room{ID: id, Epoch: epoch, Version: version, members: members}
	for user, m := range members {
		r.seats.take(m.Seat, user)
	}
	r.size = len(members)
	return r
}

// Member returns the user's place, and whether there is one.
func (r *Room) Member(user string) (Member, bool) {
	m, ok := r.members[user]
	return m, ok
}

// Apply runs one action by the rules and returns the seat it was about. On an
// error ([ErrFull], [ErrSeatTaken], [ErrNotMember], [ErrDuplicate]) the room is as it
// was.
func (r *Room) Apply(a Action, rules Rules) (seat int, err error) {
	switch a.kind {
	case KindLeave:
		return r.leave(a)
	case kindKeep:
		return r.keep(a)
	case kindDetach:
		return r.detach(a)
	case kindEvict:
		return r.evict(a), nil
	case kindRenew:
		r.wentBack(a.session, uint64(a.at), r.mark)
		return 0, nil
	}
	return r.join(a, rules)
}

func (r *Room) join(a Action, rules Rules) (int, error) {
	if m, ok := r.members[a.user]; ok {
		if !r.yields(m, a, rules) {
			return 0, r.duplicate(a.user, m)
		}
		if m.Session != a.session || m.Node != a.node {
			r.change(a.node, wireChange{Type: kindReplace, User: a.user, Seat: m.Seat, Session: a.session, Old: m.Session})
		}
		return m.Seat, nil
	}
	if taken, all := len(r.members), rules.seats(); taken >= all {
		return 0, &refusal{ErrFull, fmt.Sprintf("room %s is full: %d of %d seats taken", r.ID, taken, all)}
	}
	seat := a.seat
	switch {
	case seat == anySeat:
		seat = r.seats.lowestFree()
	case r.seats.has(seat):
		return 0, &refusal{ErrSeatTaken, fmt.Sprintf("seat %d of room %s is taken", seat, r.ID)}
	}
	r.change(a.node, wireChange{Type: KindJoin, User: a.user, Seat: seat, Session: a.session, At: a.at})
	return seat, nil
}

// yields reports whether a member's session gives way to that of a join.
func (r *Room) yields(m Member, a Action, rules Rules) bool {
	switch {
	case strings.TrimPrefix(m.Session, detached) == a.session:
		return true
	case a.again:
		return false // it is newer, whether it lives or may come back
	case rules.Duplicate == Replace, strings.HasPrefix(m.Session, detached):
		return true
	}
	return a.dead != "" && m.Node == a.dead
}

func (r *Room) duplicate(user string, m Member) error {
	return &duplicate{refusal{ErrDuplicate, fmt.Sprintf("%s is in room %s with another session", user, r.ID)}, m.Node}
}

func (r *Room) keep(a Action) (int, error) {
	m, ok := r.members[a.user]
	switch {
	case !ok:
		return 0, &refusal{ErrNotMember, fmt.Sprintf("%s is not in room %s", a.user, r.ID)}
	case strings.TrimPrefix(m.Session, detached) != a.session:
		return 0, r.duplicate(a.user, m)
	case m.Session != a.session || m.Node != a.node:
		r.change(a.node, wireChange{Type: kindReplace, User: a.user, Seat: m.Seat, Session: a.session, Old: m.Session})
	}
	return m.Seat, nil
}

func (r *Room) leave(a Action) (int, error) {
	m, ok := r.members[a.user]
	switch {
	case !ok:
		return 0, &refusal{ErrNotMember, fmt.Sprintf("%s is not in room %s", a.user, r.ID)}
	case m.Session != a.session && m.Session != detached+a.session:
		return 0, &refusal{ErrNotMember, fmt.Sprintf("%s is in room %s with another session", a.user, r.ID)}
	}
	r.change(a.node, wireChange{Type: KindLeave, User: a.user, Seat: m.Seat})
	return m.Seat, nil
}

func (r *Room) detach(a Action) (int, error) {
	m, ok := r.members[a.user]
	switch {
	case !ok:
		return 0, &refusal{ErrNotMember, fmt.Sprintf("%s is not in room %s", a.user, r.ID)}
	case m.Session == a.session:
		r.change(m.Node, wireChange{Type: kindReplace, User: a.user, Seat: m.Seat, Session: detached + a.session, Old: a.session})
	case m.Session != detached+a.session:
		return 0, &refusal{ErrNotMember, fmt.Sprintf("%s is in room %s with another session", a.user, r.ID)}
	}
	return m.Seat, nil
}

// evict returns how many members have left.
func (r *Room) evict(a Action) (n int) {
	for _, o := range r.Snapshot().Users() {
		if m := r.members[o.User]; m.Node == a.node {
			r.change(a.node, wireChange{Type: KindLeave, User: o.User, Seat: m.Seat})
			n++
		}
	}
	return n
}

// change carries out a change, and remembers it.
func (r *Room) change(node string, c wireChange) {
	m, was := r.members[c.User]
	r.changes, r.before = append(r.changes, c), append(r.before, former{c.User, m, was})
	r.carryOut(node, c)
}

func (r *Room) carryOut(node string, c wireChange) {
	switch m := r.members[c.User]; c.Type {
	case KindJoin:
		r.put(c.User, Member{Seat: c.Seat, Session: c.Session, Node: node, At: c.At})
	case KindLeave:
		r.remove(c.User)
	case kindReplace:
		m.Session, m.Node = c.Session, node
		r.members[c.User] = m
	}
}

func (r *Room) put(user string, m Member) {
	r.remove(user)
	r.members[user] = m
	r.seats.take(m.Seat, user)
}

func (r *Room) remove(user string) {
	if m, ok := r.members[user]; ok {
		delete(r.members, user)
		r.seats.free(m.Seat)
	}
}

// Changed reports whether there is something to commit.
func (r *Room) Changed() bool { return len(r.changes) > 0 || r.renewed || r.confirm }

// wentBack has the next Commit begin a new epoch if this room is an earlier one than
// that which was known, or another one of the same version.
func (r *Room) wentBack(epoch string, version uint64, mark string) {
	if r.Epoch == epoch && (r.Version < version || r.Version == version && r.mark != mark) {
		r.renewed = true
	}
}

// Changes returns what players are told of the actions applied so far.
func (r *Room) Changes() []Change {
	var list []Change
	for _, c := range r.changes {
		if c.Type != kindReplace {
			list = append(list, Change{c.Type, c.User, c.Seat})
		}
	}
	return list
}

// Commit lets what was applied stand, as the next version of that epoch.
func (r *Room) Commit(epoch string) { r.commit(epoch, "") }

// commit is Commit of a room that is known by a mark from then on.
func (r *Room) commit(epoch, mark string) {
	if r.Changed() {
		r.Epoch, r.mark = epoch, mark
		r.Version++
	}
	r.settle()
}

// Revert makes the room what it was at the last Commit.
func (r *Room) Revert() {
	for _, f := range slices.Backward(r.before) {
		r.remove(f.user)
		if f.was {
			r.put(f.user, f.member)
		}
	}
	r.settle()
}

func (r *Room) settle() {
	r.changes, r.before, r.size = r.changes[:0], r.before[:0], len(r.members)
	r.renewed, r.confirm = false, false
}

// follow brings the room from the version before an event to the event's. It
// reports whether it stands there, or did already; if not, something is missing.
func (r *Room) follow(e *Event) bool {
	switch {
	case e.Epoch != r.Epoch:
		return false
	case e.Version == r.Version && e.wire != nil:
		return e.wire.Mark == r.mark // if not, a failover has lost one of the two
	case e.Version <= r.Version:
		return true
	case e.From != r.Version || e.wire == nil:
		return false
	}
	for _, c := range e.wire.Changes {
		node := ""
		if c.Type != KindLeave { // what stays must not keep the whole payload in memory
			c.User, c.Session, node = strings.Clone(c.User), strings.Clone(c.Session), r.nodeName(e.wire.Node)
		}
		r.carryOut(node, c)
	}
	r.Version, r.mark = e.Version, strings.Clone(e.wire.Mark)
	r.settle()
	return true
}

// maxNodeNames bounds how many names of other nodes a room keeps.
const maxNodeNames = 16

// nodeName returns the name of another node, the same one for all of its members.
func (r *Room) nodeName(name string) string {
	kept, ok := r.nodes[name]
	if !ok {
		if len(r.nodes) == maxNodeNames || r.nodes == nil {
			r.nodes = make(map[string]string)
		}
		kept = strings.Clone(name)
		r.nodes[kept] = kept
	}
	return kept
}

// Snapshot returns the room as it is now.
func (r *Room) Snapshot() Snapshot { return Snapshot{r.Epoch, r.Version, r.seats.view()} }
