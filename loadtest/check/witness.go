package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Verdict is the result of a checker.
type Verdict struct {
	Violations []Violation
	Judged     int         // number of operations
	Lost       map[int]int // acknowledged actions missing in the journals, by index of the fault
	Unsure     []string    // descriptions of what could not be decided
	Watched    int         // number of rooms in which events to watchers replaced the journal
	Strange    []string    // kinds of changes that it does not know and ignores
}

// mostViolations limits the described violations of a rule in a room, because one defect has many consequences.
const mostViolations = 5

// Witness judges a history by the rooms' journals.
func Witness(h *History) *Verdict {
	v := &Verdict{Lost: make(map[int]int)}
	for _, op := range h.Ops {
		if op.Room == "" && op.Outcome == Refused &&
			(op.Code == "room_full" || op.Code == "closed" || op.Code == "seat_taken") {
			v.Violations = append(v.Violations, Violation{Checker: "witness", Rule: "match", At: op.Return,
				Text: op.String() + ": a room of its own would have done"})
		}
	}
	moved, commits := newMovedData(h), newCommitTimes(h)
	ops, events := h.ops(), h.events()
	for _, room := range h.Rooms {
		w := newWitness(h, room, v, ops[room], events[room])
		if len(w.journal) == 0 && slices.ContainsFunc(h.Conns, func(c Conn) bool { return c.Watches }) {
			if len(w.acked) > 0 {
				v.Unsure = append(v.Unsure, fmt.Sprintf(
					"room %s has no journal, and nobody could watch it: %d operations were judged by porcupine alone",
					room, len(w.ops)))
			}
			continue
		}
		w.moved, w.commits = moved, commits
		w.index()
		w.replay()
		w.actions()
		w.conflicts()
		w.order()
		w.follow()
	}
	moved.judge(v)
	return v
}

// events returns the events by room.
func (h *History) events() map[string][]*Event {
	of := make(map[string][]*Event)
	for i := range h.Events {
		e := &h.Events[i]
		of[e.Room] = append(of[e.Room], e)
	}
	return of
}

// sighting is a room in the view of a client.
type sighting struct {
	list *List
	who  fmt.Stringer
	when time.Duration
}

// String describes a snapshot.
func (e *Event) String() string { return fmt.Sprintf("a snapshot for %q", e.User) }

// witness judges one room.
type witness struct {
	history  *History
	room     string
	verdict  *Verdict
	moved    *movedData     // shared by all rooms
	commits  *commitTimes   // shared by all rooms
	told     map[string]int // number of violations by rule
	journal  []Entry
	public   bool          // the journal consists of events to watchers
	position map[Point]int // index in the journal; for a version within an entry of watchers, that entry's
	events   []*Event
	ops      []*Op
	open     []*Op // those that may be in the journal at an unknown version
	seen     map[Point][]sighting
	acked    map[Point][]*Op
	values   map[string][]int // positions in the journal by data or text
	left     map[removed]bool // leaves in the journal
}

// removed is a user who left a room, with the reason.
type removed struct{ user, reason string }

func newWitness(h *History, room string, v *Verdict, ops []*Op, events []*Event) *witness {
	w := &witness{
		history: h, room: room, verdict: v, told: make(map[string]int), journal: h.Journals[room], ops: ops,
		events:   events,
		position: make(map[Point]int), seen: make(map[Point][]sighting), acked: make(map[Point][]*Op),
		values: make(map[string][]int), left: make(map[removed]bool),
	}
	if len(w.journal) == 0 || w.journal[0].Version != 1 {
		if watched := h.watched(events); len(watched) > 0 {
			w.journal, w.public = watched, true
			v.Watched++
		}
	}
	for _, op := range w.ops {
		if _, half := h.halfDone(op); op.Outcome == Unknown || half {
			w.open = append(w.open, op)
		}
		if op.Outcome == Done {
			p := op.point()
			w.acked[p] = append(w.acked[p], op)
			if op.List != nil {
				w.seen[p] = append(w.seen[p], sighting{op.List, op, op.Return})
			}
		}
	}
	for _, e := range events {
		if e.List != nil && !e.Reply {
			p := e.point()
			w.seen[p] = append(w.seen[p], sighting{e.List, e, e.At})
		}
	}
	return w
}

// broken reports a violation.
func (w *witness) broken(rule string, when time.Duration, format string, args ...any) {
	if w.told[rule]++; w.told[rule] <= mostViolations {
		w.verdict.Violations = append(w.verdict.Violations,
			Violation{Checker: "witness", Rule: rule, Room: w.room, At: when, Text: fmt.Sprintf(format, args...)})
	}
}

// index finds the positions of versions and values in the journal, and judges its order.
func (w *witness) index() {
	before := Point{}
	for i, e := range w.journal {
		here := e.point()
		switch {
		case w.public:
			for v := e.from + 1; v <= e.Version; v++ {
				w.position[Point{e.Epoch, v}] = i
			}
		case before.Version == 0 && e.Version != 1 && !e.recalls(), e.Epoch == before.Epoch &&
			e.Version != before.Version+1,
			e.Epoch != before.Epoch && e.Version > before.Version+1 && !e.recalls():
			w.broken("gap", 0, "the journal has %v behind %v", here, before)
		}
		if _, twice := w.position[here]; twice && !w.public {
			w.broken("gap", 0, "the journal has %v twice", here)
		}
		w.position[here] = i
		for _, c := range e.Changes {
			if c.Type == "leave" {
				w.left[removed{c.User, c.Reason}] = true
			}
			value, at := cmp.Or(c.Data, c.Text), w.values[cmp.Or(c.Data, c.Text)]
			if c.Again {
				continue // it was set before Redis lost it
			}
			if c.Type == "private" && len(at) > 0 && at[len(at)-1] == i {
				continue // several users were dealt the same
			}
			if w.carried(&e, c) {
				if !w.moved.dealt[hand{c.User, c.Data}] {
					w.broken("phantom", 0, "%v has private data of %q that nobody dealt in any room", here,
						c.User)
				}
				continue // they count where they were dealt
			}
			if c.Type == "private" || c.Type == "data" || c.Type == "message" || c.Type == "member" && c.Data != "" {
				w.values[value] = append(w.values[value], i)
			}
		}
		before = here
	}
}

// recalls reports whether the entry restores data that Redis had lost. It may then continue a version that only
// a node knew.
func (e *Entry) recalls() bool {
	return slices.ContainsFunc(e.Changes, func(c Change) bool { return c.Again })
}

// carried reports whether a change has private data that a member brought from another room.
func (w *witness) carried(e *Entry, c Change) bool {
	return c.Type == "private" &&
		(slices.ContainsFunc(e.Changes, func(o Change) bool {
			return o.User == c.User && (o.Type == "join" && o.Away || o.Type == "replace")
		}) ||
			slices.ContainsFunc(w.acked[e.point()],
				func(op *Op) bool { return op.Action == MoveIn && slices.Contains(op.Users, c.User) }))
}

// replay computes the room at each version, and compares it with the lists and replies of that version.
func (w *witness) replay() {
	s := newState(w.public)
	for i, e := range w.journal {
		if i > 0 && e.Epoch != w.journal[i-1].Epoch && len(w.history.Faults) == 0 && !w.public &&
			(e.Version > 1 || len(s.Members) > 0) {
			w.broken("gap", 0, "epoch %s begins at version %d, behind a room of %d members, and nothing was said to be lost", short(e.Epoch), e.Version, len(s.Members))
		}
		switch {
		case e.list != nil:
			s = stateOf(e.list)
		case e.Version == 1 || w.public && e.from == 0:
			s = newState(w.public)
		}
		host, before := s.Host(), map[string]string(nil)
		here := e.point()
		if slices.ContainsFunc(w.acked[here], func(op *Op) bool {
			return op.Action == MoveOut || op.Action == MoveIn
		}) {
			before = s.private()
		}
		for _, one := range s.apply(&e) {
			w.broken(one.rule, 0, "%v: %s", here, one.text)
		}
		for _, kind := range s.Strange {
			if !slices.Contains(w.verdict.Strange, kind) {
				w.verdict.Strange = append(w.verdict.Strange, kind)
			}
		}
		for _, o := range w.seen[here] {
			if differs := s.differs(o.list); differs != "" {
				w.broken("reply", o.when, "%s: at %v %s", o.who, here, differs)
			}
		}
		for _, op := range w.acked[here] {
			if e.merged || w.public && op.hidden() {
				continue
			}
			if missing := s.lacks(op, &w.journal[i]); missing != (wrong{}) {
				w.broken(missing.rule, op.Return, "%s: %s", op, missing.text)
			}
			if !w.public {
				w.moved.pack(op, &w.journal[i], before, s)
			}
			if op.AsHost && op.Process != host && !slices.ContainsFunc(e.Changes,
				func(c Change) bool { return c.Type == "host" && c.User == op.Process }) {
				w.broken("rights", op.Return, "%s: only the host may, and that was %q", op, host)
			}
			if op.Action != Read && op.Count != len(s.Members) {
				w.broken("reply", op.Return, "%s: it says that there are %d members, and the journal has %d", op,
					op.Count, len(s.Members))
			}
		}
	}
	if set := s.Timers(); len(set) > 0 {
		w.broken("timer", w.history.End, "%q were set, and have not fired", set)
	}
	w.apart()
}

// apart compares lists of versions that are not in the journal: all lists of a version must agree.
func (w *witness) apart() {
	for here, list := range w.seen {
		if _, is := w.position[here]; is || here.Version == 0 {
			continue
		}
		first := stateOf(list[0].list)
		for _, o := range list[1:] {
			public := *o.list
			public.Private = nil // each user sees other ones
			if differs := first.differs(&public); differs != "" {
				w.broken("two contents", o.when, "%s: at %v, which is lost, %s; %s was shown that", o.who, here,
					differs, list[0].who)
			}
		}
	}
}

// conflicts judges each compare-and-set of the data: nobody may have set the data since the expected version.
func (w *witness) conflicts() {
	set := make(map[string][]uint64) // by epoch: versions that set the data
	for _, e := range w.journal {
		if slices.ContainsFunc(e.Changes, func(c Change) bool { return c.Type == "data" }) {
			set[e.Epoch] = append(set[e.Epoch], e.Version)
		}
	}
	for _, op := range w.ops {
		_, is := w.position[op.point()]
		if op.Action != SetData || op.Expect == nil || !is || w.public || op.Outcome == Refused &&
			op.Code != "conflict" {
			continue
		}
		versions := set[op.Epoch]
		after, _ := slices.BinarySearch(versions, *op.Expect+1)
		changed := after < len(versions) && (versions[after] < op.Version || versions[after] == op.Version &&
			op.Outcome == Refused)
		another := op.InEpoch != "" && op.InEpoch != op.Epoch
		switch {
		case op.Outcome == Done && (changed || another):
			w.broken("conflict", op.Return, "%s: it expected version %d of epoch %s, and somebody has set the data since", op, *op.Expect, short(op.InEpoch))
		case op.Outcome == Refused && !changed && !another && !w.history.split(op) && !w.renewed(op):
			w.broken("conflict", op.Return, "%s: it expected version %d, and nobody has set the data between that and version %d", op, *op.Expect, op.Version)
		}
	}
}

// renewed reports whether the operation's epoch started after the version that it expects.
func (w *witness) renewed(op *Op) bool {
	_, is := w.position[Point{op.Epoch, *op.Expect}]
	return !is
}

// actions judges each operation by itself: the journal has each acknowledged one once, and no refused one.
func (w *witness) actions() {
	asked := make(map[string]bool) // users who may be in the room
	for _, op := range w.ops {
		w.verdict.Judged++
		here := op.point()
		_, survives := w.position[here]
		if op.Outcome == Done && !survives && op.Version > 0 {
			w.lose(op)
		}
		if op.Value != "" {
			w.value(op, survives)
		}
		if _, half := w.history.halfDone(op); op.Outcome != Refused || half {
			switch op.Action {
			case Join, Match:
				asked[op.Process] = true
			case Reserve, MoveIn:
				for _, user := range op.Users {
					asked[user] = true
				}
			}
		}
	}
	for _, e := range w.journal {
		for _, c := range e.Changes {
			if c.Type == "join" && !asked[c.User] {
				asked[c.User] = true // report it only once
				w.broken("phantom", 0, "%q joins at %v, and nobody asked for that, or it was refused", c.User, e.point())
			}
			if (c.Type == "seat" || c.Type == "leave" && c.Reason == "moved") && !w.askedThere(e, c) {
				w.broken("phantom", 0, "%v has %s, and nobody asked for that, or it was refused", e.point(),
					changes([]Change{c}))
			}
		}
	}
	known := make(map[string]bool)
	for _, op := range w.ops {
		known[op.Value] = true
	}
	for value, at := range w.values {
		if !known[value] {
			w.broken("phantom", 0, "%s is in the journal (version %d), and nobody asked for that", value,
				w.journal[at[0]].Version)
		}
	}
}

// askedThere reports whether an operation asked for a change of seats or a move, and was acknowledged in that
// entry or may have been done there.
func (w *witness) askedThere(e Entry, c Change) bool {
	is := func(op *Op) bool {
		if c.Type == "seat" {
			return op.Action == Shuffle || op.Action == Swap && slices.Contains(op.Users, c.User)
		}
		return op.Action == MoveOut && slices.Contains(op.Users, c.User)
	}
	here := e.point()
	when := w.commits.when(w.room, here)
	for v := e.from + 1; e.merged && v < e.Version; v++ {
		if slices.ContainsFunc(w.acked[Point{e.Epoch, v}], is) {
			return true
		}
	}
	return slices.ContainsFunc(w.acked[here], is) || slices.ContainsFunc(w.open, func(op *Op) bool {
		until, half := w.history.halfDone(op)
		return is(op) && (!half || op.Call <= when.to && when.from <= until)
	})
}

// value judges how often the journal has the data or text of an operation.
func (w *witness) value(op *Op, survives bool) {
	switch n := len(w.values[op.Value]); {
	case n > 1:
		w.broken("twice", op.Return, "%s: it is in the journal %d times", op, n)
	case n == 1 && op.Outcome == Refused:
		w.broken("refused", op.Return, "%s: it is in the journal all the same", op)
	case n == 1 && op.Outcome == Done && !survives && !(w.public && w.unwatched(op)):
		w.broken("twice", op.Return, "%s: that version is lost, and it is in the journal elsewhere", op)
	}
}

// lose judges an acknowledged operation whose version is not in the journal.
func (w *witness) lose(op *Op) {
	for i, f := range w.history.Faults {
		if f.Loses && op.Return >= f.Since && op.Call <= f.To {
			if op.Action != Read {
				w.verdict.Lost[i]++
			}
			return
		}
	}
	if op.Action == Read && w.history.split(op) || w.public && w.unwatched(op) {
		return // a read waits for no replica
	}
	w.broken("lost", op.Return, "%s: the journal has no such version, and no fault was allowed to lose it", op)
}

// order judges by time: an operation that started after another was answered must come later.
func (w *witness) order() {
	var done []*Op
	for _, op := range w.ops {
		if op.Outcome == Done && op.Version > 0 {
			done = append(done, op)
		}
	}
	returns := slices.Clone(done)
	slices.SortFunc(done, func(a, b *Op) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortFunc(returns, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
	var last *Op                   // the answered operation with the largest position so far
	newest := make(map[string]*Op) // the same by epoch
	for _, op := range done {
		for len(returns) > 0 && returns[0].Return < op.Call {
			a := returns[0]
			returns = returns[1:]
			if n := newest[a.Epoch]; n == nil || a.Version > n.Version {
				newest[a.Epoch] = a
			}
			if i, is := w.position[a.point()]; is &&
				(last == nil || i > w.position[last.point()]) {
				last = a
			}
		}
		if n := newest[op.Epoch]; n != nil && (n.Version > op.Version || n.Version == op.Version && op.writes()) &&
			!w.history.split(op) {
			w.broken("order", op.Call, "%s began after the end of %s", op, n)
		}
		if i, is := w.position[op.point()]; last != nil && is && last.Epoch != op.Epoch &&
			i < w.position[last.point()] && !w.history.split(op) {
			w.broken("order", op.Call, "%s began after the end of %s", op, last)
		}
	}
}
