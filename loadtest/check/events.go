package check

import "slices"

// follower is the state of a room on a connection.
type follower struct {
	Point
	knows bool
}

// follow compares the events of each connection with the journal, in order, from the connection's first version.
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
		case c.Type == "replace", c.Type == "ban", c.Type == "agree":
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
