package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

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

// sighting is a room in the view of a client.
type sighting struct {
	list *List
	who  fmt.Stringer
	when time.Duration
}

// witness judges one room.
type witness struct {
	complaints
	history  *History
	verdict  *Verdict
	moved    *movedData   // shared by all rooms
	commits  *commitTimes // shared by all rooms
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
		complaints: complaints{"witness", room, make(map[string]int), &v.Violations},
		history:    h, verdict: v, journal: h.Journals[room], ops: ops, events: events,
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

// index finds the positions of versions and values in the journal, and judges its order, and carried private data.
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
					w.broken("phantom", 0, "%v has private data of %q that nobody dealt in any room", here, c.User)
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

// carried reports whether a change has private data that a member brought from another room.
func (w *witness) carried(e *Entry, c Change) bool {
	return c.Type == "private" && (e.awaits(c.User) || slices.ContainsFunc(w.acked[e.point()],
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
			before = s.found(&e)
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
				w.pack(op, &w.journal[i], before, s)
			}
			if op.AsHost && op.Process != host && !e.has("host", op.Process) {
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
