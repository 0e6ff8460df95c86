package check

import (
	"slices"
	"time"
)

// follower is the state of a room on a connection.
type follower struct {
	Point
	knows bool
}

// follow compares the events of each connection with the journal, in order, from the connection's first
// version.
func (w *witness) follow() {
	conns := make(map[int]*follower)
	told := make(map[Point][]Change) // events of versions that are not in the journal
	for _, e := range w.events {
		f := conns[e.Conn]
		if f == nil {
			f = new(follower)
			conns[e.Conn] = f
		}
		switch {
		case e.Lost != "":
			f.knows = false
			w.lost(e)
			continue
		case e.List == nil:
			if f.knows && (e.From != f.Version || e.Epoch != f.Epoch) && !(f.Version == 0 && e.From == 0) {
				w.broken("event", e.At, "%q stands at %v, and is told what is behind %v", e.User, f.Point,
					Point{e.Epoch, e.From})
			}
			w.event(e, told)
		}
		*f = follower{e.point(), true}
	}
}

// lost judges a message that a user has lost the seat to somebody else: the journal must have that. If a node
// seemed to be dead, or half a move failed, the removal may have been undone.
func (w *witness) lost(e *Event) {
	if w.public || w.history.Halves || len(w.history.Faults) > 0 ||
		!slices.Contains([]string{"kicked", "closed", "moved"}, e.Lost) {
		return
	}
	if !w.left[removed{e.User, e.Lost}] {
		w.broken("event", e.At, "%q is told to have lost the seat, %s, and the journal does not have that", e.User,
			e.Lost)
	}
}

// event compares changes with the journal, or with the events of other users.
func (w *witness) event(e *Event, told map[Point][]Change) {
	var want []Change
	for version := e.From + 1; version <= e.Version; version++ {
		i, is := w.position[Point{e.Epoch, version}]
		switch {
		case !is:
			if e.Version == e.From+1 {
				w.eventApart(e, told)
			}
			return
		case w.journal[i].merged && (w.journal[i].list != nil || w.journal[i].from != version-1 ||
			w.journal[i].Version > e.Version):
			return // some versions are unknown
		case w.journal[i].merged:
			version = w.journal[i].Version
		}
		want = append(want, public(w.journal[i].Changes, e.User, false)...)
	}
	got := e.Changes
	if w.public {
		got = open(got)
	}
	if !same(got, want) {
		w.broken("event", e.At, "%q is told of versions %d to %d of epoch %s: %s; the journal has %s", e.User,
			e.From+1, e.Version, short(e.Epoch), changes(e.Changes), changes(want))
	}
}

// eventApart compares the events of two users about a lost version, except for private changes.
func (w *witness) eventApart(e *Event, told map[Point][]Change) {
	here := e.point()
	all := open(e.Changes)
	if first, known := told[here]; known && !same(first, all) {
		w.broken("two contents", e.At, "%q is told of %v, which is lost: %s; another was told %s", e.User, here,
			changes(all), changes(first))
	}
	told[here] = all
}

// open returns the changes that all users get.
func open(changes []Change) []Change {
	hidden := func(c Change) bool { return c.Type == "message" && c.To != nil || c.Type == "private" }
	if !slices.ContainsFunc(changes, hidden) {
		return changes
	}
	return slices.DeleteFunc(slices.Clone(changes), hidden)
}

// public returns the changes that a user may see. With authority, that includes all messages and private data.
func public(all []Change, user string, authority bool) (list []Change) {
	for _, c := range all {
		c.At, c.Until, c.Again = 0, 0, false
		switch {
		case c.Type == "replace", c.Type == "ban":
			continue
		case c.Type == "defaults":
			if c.Settings == nil || *c.Settings == (Settings{}) {
				continue
			}
			c.Type = "settings"
		case authority:
		case c.Type == "message" && c.To != nil && c.User != user && !slices.Contains(c.To, user):
			continue
		case c.Type == "private" && c.User != user:
			continue
		}
		list = append(list, c)
	}
	return list
}

type roomEpoch struct{ room, epoch string }

// commitTimes has for each commit of an epoch, by version, the interval in which it happened, according to the
// clients.
type commitTimes struct {
	of  map[roomEpoch][]interval
	end time.Duration
}

func newCommitTimes(h *History) *commitTimes {
	m := &commitTimes{make(map[roomEpoch][]interval), h.End}
	for _, op := range h.Ops {
		if op.Version == 0 || op.Outcome == Unknown {
			continue
		}
		in := roomEpoch{op.Room, op.Epoch}
		m.before(in, op.Version, op.Return)
		if !h.split(op) { // otherwise it may be an old version
			next := m.at(in, op.Version+1)
			next.from = max(next.from, op.Call)
		}
	}
	for i := range h.Events {
		if e := &h.Events[i]; e.Version > 0 {
			m.before(roomEpoch{e.Room, e.Epoch}, e.Version, e.At)
		}
	}
	for _, list := range m.of {
		for v := 1; v < len(list); v++ {
			list[v].from = max(list[v].from, list[v-1].from)
		}
		for v := len(list) - 2; v >= 0; v-- {
			list[v].to = min(list[v].to, list[v+1].to)
		}
	}
	return m
}

// at returns the record of a version.
func (m *commitTimes) at(in roomEpoch, version uint64) *interval {
	for uint64(len(m.of[in])) <= version {
		m.of[in] = append(m.of[in], interval{to: m.end})
	}
	return &m.of[in][version]
}

func (m *commitTimes) before(in roomEpoch, version uint64, when time.Duration) {
	at := m.at(in, version)
	at.to = min(at.to, when)
}

// when returns the interval of a commit.
func (m *commitTimes) when(room string, version Point) interval {
	list := m.of[roomEpoch{room, version.Epoch}]
	if len(list) == 0 {
		return interval{to: m.end}
	}
	return list[min(version.Version, uint64(len(list)-1))]
}

// Kind groups rules of the checkers, for readers and for scripts.
type Kind struct {
	Name  string // in JSON
	About string
	rules []string
}

// Kinds has all kinds.
var Kinds = []Kind{
	{"lost", "An acknowledged join, leave or other action is missing, or a timer has not fired, or private data did not come along.", []string{"lost", "missing", "private", "timer"}},
	{"phantom", "A user is in the list, or leaves it, and never joined; or something happened that nobody asked for, or that was refused.", []string{"phantom", "refused"}},
	{"duplicate", "A user joined who was there, or a message, data or a timer came twice.", []string{"twice"}},
	{"oversold", "A room has more members than its capacity at that version, or a member on a seat beyond it.",
		[]string{"oversold"}},
	{"seat_clash", "Two users have one seat, or a seat changed hands that nobody had left.", []string{"seat"}},
	{"version_gap", "A version was skipped, or came twice.", []string{"gap"}},
	{"diverged", "Two sources contradict each other about one version; or what was told has no order in which it can have happened; or a room has no host, or a stranger.",
		[]string{"reply", "event", "two contents", "content", "host", "order", "linearizability", "settles", "lock"}},
	{"intruder", "Somebody came into a closed room, or in spite of a ban, or did what only the host may.",
		[]string{"closed", "banned", "rights"}},
	{"torn", "A party, a deal or a move took place in part.", []string{"torn"}},
	{"conflict", "A compare-and-set replaced what it did not expect, or was refused without a reason; or a match found no seat.", []string{"conflict", "match"}},
}

// Counts has the number of violations by the name of the kind.
type Counts map[string]int

// Count counts violations.
func Count(list []Violation) Counts {
	c := make(Counts)
	for _, k := range Kinds {
		c[k.Name] = 0
	}
	for _, v := range list {
		c[v.Kind()]++
	}
	return c
}

// Kind returns the name of the violation's kind.
func (v Violation) Kind() string {
	for _, k := range Kinds {
		if slices.Contains(k.rules, v.Rule) {
			return k.Name
		}
	}
	return "diverged"
}
