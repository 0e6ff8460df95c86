package check

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
)

// env is a change of a room without an operation.
type env int

const (
	none        env = iota
	loosen          // the users' connections have ended: from now on they may leave at any time
	shake           // from now on it is unknown whether the users are in the room
	half            // others may see a half move of the users, which may be undone, until whole
	whole           // ends half
	storm           // all users are shaken until calm
	calm            //
	unseat          // from now on it is unknown who has which seat
	mayData         // the room's data may change to the value, once
	mayNoMore       // ends mayData
	maySettings     // the settings may change
)

// adds reports whether the change takes no possibility away.
func (e env) adds() bool { return e != none && e != whole && e != calm && e != mayNoMore }

// step is a step of the model: an operation, a list in a reply, or an env.
type step struct {
	op      *Op
	list    *List  // if not nil, somebody saw the room
	version uint64 // 0 if unknown
	before  int    // number of steps with lower versions
	writers int    // for a list: number of steps that wrote its version or a lower one
	last    bool   // last operation of its connection: the user may leave at any time after it
	halved  bool   // others may have seen a half of the move before
	loose   bool   // for whole: the users may be members afterwards
	env     env
	users   []string
	value   string
}

// status is the knowledge about a user.
type status struct {
	seat  int    // -1 if unknown
	loose bool   // may have left
	out   bool   // is no member; only set while unknown users may be members
	since uint64 // version of the join; 0 if unknown
}

// room is a sequential model of a room. It is immutable: step returns a new one. It holds what is certain, and
// what is possible. The order of the operations of one version is unknown, and trying all orders would take too
// long, so the effects of each of them count as possible.
type room struct {
	certainties
	dropped map[string]bool // at this version: users that others removed
	also    map[string]bool // all values of the data at the version that set them last
	members map[string]status
	shaken  map[string]bool // users with an unknown status
	halves  map[string]int  // by user: number of moves whose halves others may see
	mayData map[string]bool
}

// certainties are the parts of a room that are compared by ==.
type certainties struct {
	epoch   string
	version uint64
	placed  int // number of steps with a version so far
	writers int // how many of them certainly wrote it
	// at this version: number of members that left; they may have been there when an operation was refused
	left          int
	former        string // the data before the version that set them last
	settingsAt    uint64 // the version of the last change of the settings
	seatsAt       uint64 // version of the last change of seats
	storms        int    // if more than 0, all users have an unknown status
	wild          bool   // unknown users may be members
	unseated      bool   // all seats stay unknown
	data          string
	dataAt        uint64 // the version that set data; 0 if unknown
	knowsData     bool
	settings      Settings
	knowsSettings bool
	maySettings   bool
}

func newRoom(p *part) *room {
	return &room{certainties: certainties{epoch: p.epoch, wild: !p.first, knowsData: p.first},
		members: map[string]status{}}
}

func (r *room) equal(o *room) bool {
	return r.certainties == o.certainties && equal(r.dropped, o.dropped) && equal(r.also, o.also) &&
		equal(r.members, o.members) && equal(r.shaken, o.shaken) && equal(r.halves, o.halves) &&
		equal(r.mayData, o.mayData)
}

// equal reports whether two maps have the same elements. It is fast for maps that are the same object, which is
// the usual case, because maps are copied before a change.
func equal[V comparable](a, b map[string]V) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() || maps.Equal(a, b)
}

// step returns the room after a step, or why the step is impossible.
func (r *room) step(s *step) (next *room, wrong string) {
	n := *r
	if s.version > 0 {
		if s.version < r.version || r.placed < s.before || r.writers < s.writers {
			return r, fmt.Sprintf("it is at version %d, and the room was at %d before", s.version, r.version)
		}
		if s.version > r.version {
			n.dropped, n.left = nil, 0
		}
		n.version = s.version
		n.placed++
		if s.wrote() {
			n.writers++
		}
	}
	switch {
	case s.env == whole:
		wrong = n.whole(s.users, s.loose)
	case s.env != none:
		n.happen(s)
	case s.list != nil:
		wrong = n.seen(s.list)
	case s.op.Outcome == Refused:
		wrong = n.refuse(s.op)
	case s.halved:
		wrong = cmp.Or(n.whole(s.op.Users, false), n.do(s.op))
	default:
		wrong = n.do(s.op)
	}
	if wrong != "" {
		return r, wrong
	}
	if s.last {
		n.loosen(s.op.Process)
	}
	return &n, ""
}

// wrote reports whether the step is an operation that certainly wrote its version.
func (s *step) wrote() bool {
	return s.list == nil && s.op != nil && s.op.Outcome == Done && s.op.writes()
}

// happen applies a step without an operation.
func (r *room) happen(s *step) {
	switch s.env {
	case storm:
		r.storms++
	case calm:
		if r.storms--; r.storms == 0 { // what was known of members is void
			r.members, r.wild = map[string]status{}, true
		}
	case unseat:
		r.unseated = true
		r.unseat()
	case mayData:
		r.mayData = with(r.mayData, s.value, true)
	case mayNoMore:
		r.mayData = without(r.mayData, s.value)
	case maySettings:
		r.maySettings = true
	case loosen:
		r.loosen(s.users...)
	case shake:
		for _, user := range s.users {
			r.shaken = with(r.shaken, user, true)
			r.drop(user)
		}
	case half:
		for _, user := range s.users {
			r.halves = with(r.halves, user, r.halves[user]+1)
		}
	}
}

// whole ends the time in which others may see half a move of users.
func (r *room) whole(users []string, loose bool) string {
	for _, user := range users {
		switch n := r.halves[user]; n {
		case 0:
			return fmt.Sprintf("the move of %q has not begun", user)
		case 1:
			r.halves = without(r.halves, user)
		default:
			r.halves = with(r.halves, user, n-1)
		}
		if loose {
			r.put(user, status{seat: -1, loose: true})
		}
	}
	return ""
}

// loosen records that members may leave at any time.
func (r *room) loosen(users ...string) {
	for _, user := range users {
		if m, in := r.members[user]; in && !m.out {
			r.put(user, status{seat: m.seat, loose: true})
		}
	}
}

// lost reports whether the user's status is unknown.
func (r *room) lost(user string) bool { return r.storms > 0 || r.shaken[user] }

// vague reports whether others may see a user as a member or not, whatever the status is.
func (r *room) vague(user string) bool { return r.lost(user) || r.halves[user] > 0 }

// possible reports whether a user may be a member.
func (r *room) possible(user string) bool {
	m, known := r.members[user]
	return r.vague(user) || known && !m.out || !known && r.wild
}

func (r *room) certain(user string) bool {
	m, known := r.members[user]
	return known && !m.out && !m.loose && !r.vague(user)
}

// put sets a user's status, unless that is unknown now.
func (r *room) put(user string, m status) {
	if r.lost(user) {
		return
	}
	if r.unseated {
		m.seat = -1
	}
	r.members = maps.Clone(r.members)
	r.members[user] = m
}

// unseat makes all seats unknown until somebody sees them.
func (r *room) unseat() {
	r.members = maps.Clone(r.members)
	for user, m := range r.members {
		m.seat = -1
		r.members[user] = m
	}
}

// drop records that a user is no member.
func (r *room) drop(user string) {
	if m, known := r.members[user]; known && !m.out {
		r.left++
	}
	if r.wild && !r.lost(user) {
		r.put(user, status{out: true})
		return
	}
	r.members = maps.Clone(r.members)
	delete(r.members, user)
}

// with returns a copy of a map with one element added or replaced.
func with[V any](all map[string]V, key string, value V) map[string]V {
	bigger := maps.Clone(all)
	if bigger == nil {
		bigger = make(map[string]V)
	}
	bigger[key] = value
	return bigger
}

func without[V any](all map[string]V, key string) map[string]V {
	smaller := maps.Clone(all)
	delete(smaller, key)
	return smaller
}
