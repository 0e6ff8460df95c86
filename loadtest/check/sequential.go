package check

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"

	"roomd/loadtest/internal/model"
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
	epoch   string
	version uint64
	placed  int             // number of steps with a version so far
	writers int             // how many of them certainly wrote it
	dropped map[string]bool // at this version: users that others removed
	// at this version: number of members that left; they may have been there when an operation was refused
	left          int
	also          map[string]bool // all values of the data at the version that set them last
	former        string          // the data before that version
	settingsAt    uint64          // the version of the last change of the settings
	seatsAt       uint64          // version of the last change of seats
	members       map[string]status
	shaken        map[string]bool // users with an unknown status
	halves        map[string]int  // by user: number of moves whose halves others may see
	storms        int             // if more than 0, all users have an unknown status
	wild          bool            // unknown users may be members
	unseated      bool            // all seats stay unknown
	data          string
	dataAt        uint64 // the version that set data; 0 if unknown
	knowsData     bool
	mayData       map[string]bool
	settings      Settings
	knowsSettings bool
	maySettings   bool
}

func newRoom(p *part) *room {
	first := p.first
	return &room{epoch: p.epoch, members: map[string]status{}, wild: !first, knowsData: first}
}

func (r *room) equal(o *room) bool {
	return r.version == o.version && r.placed == o.placed && r.storms == o.storms && r.wild == o.wild &&
		r.unseated == o.unseated && r.data == o.data && r.dataAt == o.dataAt &&
		r.knowsData == o.knowsData && r.settings == o.settings && r.knowsSettings == o.knowsSettings &&
		r.maySettings == o.maySettings &&
		r.writers == o.writers && r.left == o.left && r.former == o.former && r.settingsAt == o.settingsAt &&
		r.seatsAt == o.seatsAt && equal(r.dropped, o.dropped) && equal(r.also, o.also) &&
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

// certain reports whether a user is a member.
func (r *room) certain(user string) bool {
	m, known := r.members[user]
	return known && !m.out && !m.loose && !r.vague(user)
}

// put sets a user's status.
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

// swap applies an acknowledged exchange of two members' seats.
func (r *room) swap(users []string) string {
	for _, user := range users {
		if !r.possible(user) {
			return fmt.Sprintf("%q is no member who could change places", user)
		}
	}
	a, b := r.members[users[0]], r.members[users[1]]
	if !r.certain(users[0]) || !r.certain(users[1]) || r.seatsAt == r.version {
		a.seat, b.seat = -1, -1
	}
	r.seatsAt = r.version
	for i, seat := range []int{b.seat, a.seat} {
		if m, known := r.members[users[i]]; known {
			r.put(users[i], status{seat: seat, loose: m.loose})
		}
	}
	return ""
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

// do applies an acknowledged operation. It returns why the operation is impossible, or "".
func (r *room) do(op *Op) string {
	switch op.Action {
	case Join, Match:
		return r.join(op)
	case Swap:
		return r.swap(op.Users)
	case Shuffle:
		r.unseat()
		r.seatsAt = op.Version
		return ""
	case Configure:
		r.settings, r.knowsSettings, r.settingsAt = *op.Settings, r.settingsAt != op.Version, op.Version
		return ""
	case Close:
		r.settings.Closed, r.knowsSettings, r.settingsAt = true, r.knowsSettings && r.settingsAt != op.Version,
			op.Version
		before := r.members
		r.left += len(before)
		r.members, r.wild = map[string]status{}, false
		for user, m := range before {
			if m.since == op.Version {
				r.put(user, status{seat: -1, loose: true})
			}
		}
		return ""
	case Kick, Release, MoveOut:
		for _, user := range op.Users {
			if op.Action == MoveOut && !r.possible(user) {
				return fmt.Sprintf("%q is no member who could be moved", user)
			}
			if r.members[user].since == op.Version {
				r.put(user, status{seat: -1, loose: true})
				continue
			}
			r.drop(user)
			r.dropped = with(r.dropped, user, true)
		}
		return ""
	case Deal:
		for _, user := range op.Users {
			if !r.possible(user) {
				return fmt.Sprintf("%q is no member to whom could be dealt", user)
			}
		}
		return ""
	case Reserve, MoveIn:
		for _, user := range op.Users {
			if !r.certain(user) {
				r.put(user, status{seat: -1, loose: true})
			}
		}
		return ""
	}
	if !r.possible(op.Process) {
		return fmt.Sprintf("%q is no member", op.Process)
	}
	if op.Action == Leave {
		r.drop(op.Process)
		return ""
	}
	m, known := r.members[op.Process]
	if !known {
		m = status{seat: -1}
	}
	m.loose, m.out = false, false
	if !r.dropped[op.Process] {
		r.put(op.Process, m)
	}
	if op.Action == SetData {
		other := op.InEpoch != "" && op.InEpoch != r.epoch
		if op.Expect != nil && (other || r.knowsData && r.dataAt > *op.Expect && r.dataAt != op.Version) {
			return fmt.Sprintf("it expected that nobody had set the data since version %d, and version %d did",
				*op.Expect, r.dataAt)
		}
		if r.knowsData && r.dataAt == op.Version {
			r.also = with(r.also, r.data, true)
		} else {
			r.also, r.former = nil, r.data
		}
		r.data, r.dataAt, r.knowsData = op.Value, op.Version, true
	}
	return ""
}

// join applies an acknowledged join.
func (r *room) join(op *Op) string {
	user, returns := op.Process, r.possible(op.Process)
	shuffled := r.seatsAt == op.Version
	if m, known := r.members[user]; known && r.certain(user) && m.seat >= 0 && m.seat != op.Seat && !shuffled {
		return fmt.Sprintf("%q sits on seat %d already", user, m.seat)
	}
	certain := 0
	for other, m := range r.members {
		if other == user || m.out {
			continue
		}
		if r.certain(other) {
			certain++
		}
		if m.seat == op.Seat && !shuffled {
			if r.certain(other) {
				return fmt.Sprintf("%q sits on seat %d", other, op.Seat)
			}
			r.drop(other)
		}
	}
	limits := model.Settings{Capacity: r.settings.Capacity, Closed: r.settings.Closed}
	if r.knowsSettings && !r.maySettings && !returns && r.settingsAt != op.Version {
		switch {
		case limits.Closed:
			return "the room is closed"
		case limits.Beyond(op.Seat):
			return fmt.Sprintf("there are %d seats", r.settings.Capacity)
		}
		if limits.Over(certain+1) > 0 {
			return fmt.Sprintf("%d members fill the %d seats", certain, r.settings.Capacity)
		}
	}
	m := status{seat: op.Seat, since: op.Version, loose: r.dropped[user]}
	if shuffled {
		m.seat = -1
	}
	r.put(user, m)
	return ""
}

// refusals has a function for each code of a refusal that can be judged. It returns why the reason is wrong, or
// "". Other codes do not depend on the room.
var refusals = map[string]func(r *room, op *Op) string{
	"not_member": func(r *room, op *Op) string {
		if op.Action == Leave || op.Action == SetData || op.Action == SetMember || op.Action == SetPrivate ||
			op.Action == Ready || op.Action == SetTimer {
			if r.certain(op.Process) {
				return fmt.Sprintf("%q is a member", op.Process)
			}
		}
		return ""
	},
	"closed": func(r *room, op *Op) string {
		if op.Action != MoveOut && r.knowsSettings && !r.maySettings && !r.settings.Closed {
			return "the room is not closed"
		}
		return ""
	},
	"room_full": func(r *room, op *Op) string {
		if op.Action != MoveOut { // the refusal is about the other room
			return r.full(max(1, len(op.Users)))
		}
		return ""
	},
	"seat_taken": func(r *room, op *Op) string {
		if op.Asked == nil || r.storms > 0 || r.wild || len(r.shaken) > 0 || len(r.halves) > 0 {
			return ""
		}
		for _, m := range r.members {
			if m.seat == *op.Asked || m.seat < 0 {
				return ""
			}
		}
		return fmt.Sprintf("nobody sits on seat %d", *op.Asked)
	},
	"conflict": (*room).conflict,
}

// refuse judges a refused operation: the reason must be true.
func (r *room) refuse(op *Op) string {
	if judge := refusals[op.Code]; judge != nil {
		return judge(r, op)
	}
	return ""
}

// within returns the room for an operation that was refused between the operations of this version: members
// that left may have been there, and the settings may have been older.
func (r *room) within() *room {
	n := *r
	n.maySettings = n.maySettings || r.settingsAt == r.version
	n.wild = n.wild || r.left > 0 || len(r.dropped) > 0
	return &n
}

// full judges that there were no seats for so many more.
func (r *room) full(more int) string {
	if !r.knowsSettings || r.maySettings || r.storms > 0 || r.wild {
		return ""
	}
	possible := len(r.shaken) + len(r.halves)
	for _, m := range r.members {
		if !m.out {
			possible++
		}
	}
	if r.settings.Capacity == 0 || possible+more <= r.settings.Capacity {
		return fmt.Sprintf("%d members at most are in a room of %d seats", possible, r.settings.Capacity)
	}
	return ""
}

// conflict judges a refused compare-and-set.
func (r *room) conflict(op *Op) string {
	if op.Action != SetData || op.Expect == nil {
		return ""
	}
	// It may have come before, between or after the operations of that version.
	if r.dataAt != op.Version || op.Now != r.data && !r.also[op.Now] && op.Now != r.former {
		if wrong := r.seenData(op.Now); wrong != "" {
			return wrong
		}
	}
	if (op.InEpoch == "" || op.InEpoch == r.epoch) && r.knowsData && r.dataAt <= *op.Expect && len(r.mayData) == 0 &&
		r.dataAt > 0 {
		return fmt.Sprintf("it expected that nobody had set the data since version %d, and nobody has since version %d", *op.Expect, r.dataAt)
	}
	return ""
}

// seenData applies that somebody saw the room's data.
func (r *room) seenData(data string) string {
	switch {
	case !r.knowsData:
		r.data, r.knowsData, r.dataAt = data, true, 0
	case data == r.data:
		r.also = nil
	case r.also[data]:
		r.data, r.also = data, nil
	case r.mayData[data]:
		r.mayData = without(r.mayData, data)
		r.data, r.dataAt = data, 0 // its version is unknown
	default:
		return fmt.Sprintf("the data are %q, and were %q", data, r.data)
	}
	return ""
}

// seen applies that somebody saw the room.
func (r *room) seen(l *List) string {
	if wrong := r.seenData(l.Data); wrong != "" {
		return wrong
	}
	switch {
	case !r.knowsSettings || r.maySettings:
		r.settings, r.knowsSettings = l.Settings, true
	case r.settings != l.Settings:
		return fmt.Sprintf("the settings are %+v, and were %+v", l.Settings, r.settings)
	}
	seats, members := model.NewSeats(), make(map[string]status, len(l.Users))
	for _, m := range l.Users {
		if _, twice := seats.Of[m.User]; twice || seats.At[m.Seat] != "" {
			return fmt.Sprintf("%q is there twice, or has the seat of %q", m.User, seats.At[m.Seat])
		}
		seats.Put(m.User, m.Seat)
		was, known := r.members[m.User]
		switch {
		case r.vague(m.User):
			continue
		case known && was.out, !known && !r.wild:
			return fmt.Sprintf("%q is there, who was not", m.User)
		case known && was.seat >= 0 && was.seat != m.Seat && !was.loose:
			return fmt.Sprintf("%q is on seat %d, and was on %d", m.User, m.Seat, was.seat)
		}
		if r.unseated {
			m.Seat = -1
		}
		members[m.User] = status{seat: m.Seat, loose: !known || was.loose, since: was.since}
	}
	for user := range r.members {
		if _, there := seats.Of[user]; !there && r.certain(user) {
			return fmt.Sprintf("%q is not there, who was on seat %d", user, r.members[user].seat)
		}
	}
	for user := range r.halves { // a half move is not seen here
		if was, known := r.members[user]; known {
			members[user] = was
		} else if r.wild && !r.lost(user) {
			members[user] = status{seat: -1, loose: true}
		}
	}
	if r.storms == 0 {
		r.members, r.wild = members, false
	}
	return ""
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
