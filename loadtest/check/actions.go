package check

import (
	"cmp"
	"slices"
)

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
				w.broken("phantom", 0, "%q joins at %v, and nobody asked for that, or it was refused", c.User,
					e.point())
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

// conflicts judges each compare-and-set of the data: refused exactly if the data was set since the expected version.
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
			if i, is := w.position[a.point()]; is && (last == nil || i > w.position[last.point()]) {
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
