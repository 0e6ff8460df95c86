package coordinator

import (
	"slices"
	"strings"
	"time"
)

// action compares an answer with the commit that it names.
func (j *simJudge) action(a *simAction) {
	if a.view.Epoch == "" {
		if a.outcome == simDone && a.kind != "read" {
			j.fault("no position: %v", a)
		}
		return
	}
	c := j.viewed(a.room, a.view, a)
	if c == nil {
		return
	}
	state, user := c.state, a.user
	m, in := state.memberOf(user)
	switch {
	case a.outcome == simDone && !a.isIn(c) && !a.cameBack(state):
		j.fault("room %s, %v does not have what was acknowledged: %v", a.room, a.view.simPosition, a)
	case a.outcome == simDone && a.kind == "join" && (!in || m.seat != a.view.seat):
		j.fault("room %s, %v: seat %d was acknowledged, and the list is %s: %v", a.room, a.view.simPosition, a.view.seat, state.list(), a)
	case a.outcome == simDone && a.kind == "move":
		if other := j.viewed(a.to, a.other, a); other != nil {
			if _, in := other.state.memberOf(user); !in {
				j.fault("room %s, %v: the move was acknowledged, and the list is %s: %v", a.to, a.other.simPosition, other.state.list(), a)
			}
		}
	case a.why == "full" && a.kind == "join" && state.most < simSeats:
		j.fault("room %s, %v is full, and the list is %s: %v", a.room, a.view.simPosition, state.list(), a)
	case a.why == "not a member" && a.kind == "leave" && in && strings.TrimLeft(m.session, "~+") == a.session:
		j.fault("room %s, %v: not a member, and the list is %s: %v", a.room, a.view.simPosition, state.list(), a)
	case a.why == "conflict" && a.expect.Epoch == state.Epoch && state.dataAt <= a.expect.Version:
		j.fault("room %s, %v: the data are of version %d, a conflict with %v: %v", a.room, a.view.simPosition, state.dataAt, a.expect, a)
	}
	if a.outcome == simDone && a.kind == "data" && a.expects {
		if before := j.before(c); before == nil || before.Epoch != a.expect.Epoch && c.Version > 1 || before.dataAt > a.expect.Version {
			j.fault("room %s, %v: data replaced others than were expected: %v", a.room, a.view.simPosition, a)
		}
	}
}

// before returns the room before a commit, nil if it is not known.
func (j *simJudge) before(c *simCommit) *simState {
	if was := j.commitAt(c.room, simPosition{c.Epoch, c.Version - 1}); was != nil {
		return was.state
	}
	return nil
}

// viewed returns the commit at the position that an answer shows, if it shows the room as it was then.
func (j *simJudge) viewed(id string, v simView, a any) *simCommit {
	c := j.commitAt(id, v.simPosition)
	switch {
	case c == nil:
		j.fault("room %s: nobody has committed %v: %v", id, v.simPosition, a)
	case c.state.list() != v.list || c.state.data != v.data:
		j.fault("room %s, %v is %s with data %s, and is shown as %s with %s: %v", id, v.simPosition, c.state.list(), c.state.data, v.list, v.data, a)
	default:
		return c
	}
	return nil
}

// cameBack reports whether the room has what was asked for, which was committed before Redis lost that.
func (a *simAction) cameBack(state *simState) bool {
	m := state.members[a.user]
	return len(a.commits) > 0 && (a.kind == "join" && strings.TrimLeft(m.session, "~+") == a.session || a.kind == "data" && state.data == a.value)
}

// isIn reports whether a commit has what was asked for.
func (a *simAction) isIn(c *simCommit) bool {
	if a.kind == "read" || a.kind == "keep" {
		return true
	}
	return slices.ContainsFunc(c.Changes, func(change simChange) bool {
		switch a.kind {
		case "join":
			return change.User == a.user && change.Session == a.session
		case "leave":
			return change.Type == "leave" && change.User == a.user && change.Reason == "left"
		case "kick":
			return change.Reason == "kicked" && change.Text == a.value
		case "move":
			return change.Reason == "moved" && change.User == a.user && change.Target == a.to
		case "data":
			return change.Type == "data" && string(change.Data) == a.value
		case "timer":
			return change.Type == "countdown" && change.Timer.Name == a.value
		}
		return change.Type == "message" && change.Text == a.value
	})
}

// order looks whether an answer goes back behind one that came before it was asked for, or behind a loss.
func (j *simJudge) order() {
	ended := slices.Clone(j.record.actions)
	slices.SortFunc(ended, func(a, b *simAction) int { return a.ended.Compare(b.ended) })
	begun := slices.Clone(j.record.actions)
	slices.SortFunc(begun, func(a, b *simAction) int { return a.begun.Compare(b.begun) })
	last, next, losses := make(map[string]int), 0, j.losses
	lost := -1
	for _, a := range begun {
		for ; next < len(ended) && ended[next].ended.Before(a.begun); next++ {
			if n, ok := j.at[ended[next].room][ended[next].view.simPosition]; ok {
				last[ended[next].room] = max(last[ended[next].room], n)
			}
		}
		for ; len(losses) > 0 && j.commits[losses[0]].at.Before(a.begun); losses = losses[1:] {
			lost = losses[0]
		}
		if n, ok := j.at[a.room][a.view.simPosition]; ok && (n < last[a.room] || n < lost) {
			j.fault("room %s: an answer shows %v, behind what was shown or lost before it was asked for: %v", a.room, a.view.simPosition, a)
		}
	}
}

// watcher looks whether a watcher was told each commit, once and in order.
func (j *simJudge) watcher(node int, id string, events []simEvent) {
	var at simPosition
	last := -1
	for _, e := range events {
		if e.whole && e.Epoch == "" {
			at = e.simPosition
			continue // Redis has no such room
		}
		c := j.commitAt(id, e.simPosition)
		switch {
		case c == nil:
			j.fault("node %d is told of %v in room %s, which nobody has committed", node, e.simPosition, id)
			return
		case e.whole && (e.list != c.state.list() || e.data != c.state.data):
			j.fault("node %d is shown %v of room %s as %s with %s, and it is %s with %s", node, e.simPosition, id, e.list, e.data, c.state.list(), c.state.data)
		case !e.whole && e.changes != c.told():
			j.fault("node %d is told %v of room %s as %q, and it is %q", node, e.simPosition, id, e.changes, c.told())
		case !e.whole && at.Version > 0 && (at.Epoch != e.Epoch || e.from != at.Version):
			j.fault("node %d is told %v of room %s after %v", node, e.simPosition, id, at)
		case j.at[id][e.simPosition] < last:
			j.fault("node %d is told %v of room %s, which is behind %v", node, e.simPosition, id, at)
		}
		at, last = e.simPosition, j.at[id][e.simPosition]
	}
}

// held records that a client of the lock alone had it.
func (r *simRecord) holds(id string, from, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[id] = append(r.held[id], simHold{from, until})
}

// excuse records that leases may end from now on.
func (r *simRecord) excuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.excused.IsZero() {
		r.excused = time.Now()
	}
}

// steps records that the clock of Redis steps.
func (r *simRecord) steps() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stepped = true
}
