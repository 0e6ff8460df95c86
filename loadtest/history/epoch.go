package history

import (
	"slices"
	"unique"
)

// epochLog is what clients were told about a room in one epoch, by version.
type epochLog struct {
	name  string
	start uint64   // the version the run began with
	users []Member // at start
	data  string   // at start
	rules *Rules   // at start
	host  string   // at start
	top   int      // highest seat in any message

	// pages hold 64 versions each, by version/64. They are in a map, because a broken
	// server may name any version.
	pages map[uint64]*page
	acks  []storedAck
	spans map[span]changes // of events over several versions

	requests []answered
	heard    speech
	ruled    bool // a message told the room's settings, which may change
}

const pageSize = 64

type page struct {
	versions [pageSize]witness
	changes  []storedChange // of the versions with a commit
}

// What a witness has.
const (
	hasCommit = 1 << iota // the changes of the commit, from an event
	hasPrint              // sum and count, from a list or a view
	hasCount              // count
	disputed              // two sources disagree, which is reported
)

// witness is what clients were told about one version.
type witness struct {
	sum      uint64
	count    int32
	listBy   observer // who got sum and count first
	commitBy observer // who got the commit first
	first    uint32   // index in the page of the commit's changes
	n        uint32   // how many they are
	content  content
	has      uint8
}

func (w *witness) print() fingerprint { return fingerprint{w.sum, int(w.count)} }

// storedChange is a Change in less memory.
type storedChange struct {
	user unique.Handle[string]
	seat int32 // 0 in a leave
	join bool
	kind stays // of a change that moves nobody; then join is false
	more unique.Handle[Detail]
}

// stays is a kind of change after which the members are the same.
type stays uint8

const (
	moves stays = iota // a join or a leave
	away
	back
	reseat
	settings
	memberState
	roomData
	countdown
	fired
	hosts
	said
	strange
)

var kindsThatStay = map[string]stays{
	Join: moves, Leave: moves, Away: away, Back: back, Seated: reseat, Settings: settings,
	MemberState: memberState, RoomData: roomData, Countdown: countdown, Fired: fired, HostIs: hosts, Said: said,
}

func stayOf(kind string) stays {
	if s, ok := kindsThatStay[kind]; ok {
		return s
	}
	return strange
}

// span is the versions after from, through to.
type span struct{ from, to uint64 }

type changes []storedChange

func newEpochLog(name string) *epochLog {
	return &epochLog{name: name, pages: make(map[uint64]*page), spans: make(map[span]changes)}
}

// at returns the witness of the version, a new one if there is none.
func (e *epochLog) at(version uint64) *witness {
	p := e.pages[version/pageSize]
	if p == nil {
		p = new(page)
		e.pages[version/pageSize] = p
	}
	return &p.versions[version%pageSize]
}

// look returns the witness of the version, an empty one if there is none.
func (e *epochLog) look(version uint64) witness {
	if p := e.pages[version/pageSize]; p != nil {
		return p.versions[version%pageSize]
	}
	return witness{}
}

func (e *epochLog) store(version uint64, c []Change, o observer) {
	w, p := e.at(version), e.pages[version/pageSize]
	w.first, w.n = uint32(len(p.changes)), uint32(len(c))
	w.has |= hasCommit
	w.commitBy = o
	for i := range c {
		p.changes = append(p.changes, compact(c[i]))
	}
}

// stored returns the changes of a version that has a commit.
func (e *epochLog) stored(version uint64) changes {
	w := e.look(version)
	return changes(e.pages[version/pageSize].changes[w.first : w.first+w.n])
}

// addSpan keeps an event over several versions, unless the commit of each of them is
// stored. It returns false if the event contradicts what is stored.
func (e *epochLog) addSpan(ev Event) bool {
	complete := true
	var all changes
	for v := ev.From + 1; v <= ev.Version && complete; v++ {
		if complete = e.look(v).has&hasCommit != 0; complete {
			all = append(all, e.stored(v)...)
		}
	}
	if complete {
		return all.equal(ev.Changes)
	}
	s := span{ev.From, ev.Version}
	if c, ok := e.spans[s]; ok {
		return c.equal(ev.Changes)
	}
	c := make(changes, len(ev.Changes))
	for i := range ev.Changes {
		c[i] = compact(ev.Changes[i])
	}
	e.spans[s] = c
	return true
}

// interesting returns, in order, the versions above start that a message names or that
// a stored commit builds on.
func (e *epochLog) interesting() (versions []uint64) {
	for number, p := range e.pages {
		for i := range p.versions {
			v := number*pageSize + uint64(i)
			if p.versions[i].has != 0 {
				versions = append(versions, v)
			}
			if p.versions[i].has&hasCommit != 0 {
				versions = append(versions, v-1)
			}
		}
	}
	for _, a := range e.acks {
		versions = append(versions, a.version)
	}
	for s := range e.spans {
		versions = append(versions, s.from, s.to)
	}
	slices.Sort(versions)
	versions = slices.Compact(versions)
	after, _ := slices.BinarySearch(versions, e.start+1)
	return versions[after:]
}

func compact(c Change) storedChange {
	s := storedChange{user: unique.Make(c.User), join: c.Type == Join, kind: stayOf(c.Type)}
	if c.Type != Leave {
		s.seat = int32(c.Seat)
	}
	if c.Detail != (Detail{}) {
		s.more = unique.Make(c.Detail)
	}
	return s
}

// detail returns what only some kinds of changes have.
func (s storedChange) detail() Detail {
	if s.more == (unique.Handle[Detail]{}) {
		return Detail{}
	}
	return s.more.Value()
}

func (s storedChange) change() Change {
	c := Change{Type: Leave, User: s.user.Value()}
	if s.join {
		c.Type, c.Seat = Join, int(s.seat)
	}
	return c
}

// moves returns the joins and leaves.
func (c changes) moves() changes {
	if !slices.ContainsFunc(c, func(one storedChange) bool { return one.kind != moves }) {
		return c
	}
	return slices.DeleteFunc(slices.Clone(c), func(one storedChange) bool { return one.kind != moves })
}

// equal compares without allocating: every member of a room reports each event.
func (c changes) equal(other []Change) bool {
	if len(c) != len(other) {
		return false
	}
	for i := range c {
		if c[i].join != (other[i].Type == Join) || c[i].user.Value() != other[i].User ||
			c[i].kind != stayOf(other[i].Type) || other[i].Type != Leave && int(c[i].seat) != other[i].Seat ||
			c[i].detail() != other[i].Detail {
			return false
		}
	}
	return true
}
