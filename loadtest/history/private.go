package history

import "slices"

// Private data come to their member alone. A view follows its own user's, and reports what it is shown of others. In
// the end, what users heard is held against what was asked for: see checkSpeech, which does that for messages to some.

// Hand is what a request gives a user.
type Hand struct {
	User string
	Data string // JSON, empty removes
}

// deals returns which private data the request sets.
func (q *Request) deals() []Hand {
	switch {
	case q.Action != SetPrivate:
		return nil
	case q.Hands == nil:
		return []Hand{{q.By, q.Data}}
	}
	return q.Hands
}

// dealt is private data as a user hears of them.
func dealt(data string) Detail { return Detail{Part: SetPrivate, Data: data} }

// hold takes a change of private data over.
func (v *View) hold(c Change, version uint64) {
	if c.User != v.user {
		v.report(Diverged, version, "%s is told of private data of %s", v.name, c.User)
		return
	}
	v.private = c.Data
}

// holdList compares the private data of a list with what the view knows, if that is of the same version, and takes
// them over.
func (v *View) holdList(list List) {
	for user := range list.Private {
		if user != v.user {
			v.report(Diverged, list.Version, "%s is shown private data of %s", v.name, user)
		}
	}
	own := list.Private[v.user]
	if v.synced && !v.blind && !v.tainted && list.Epoch == v.epoch && list.Version == v.version && own != v.private {
		v.report(Diverged, list.Version, "%s is shown other private data of its own than it was told", v.name)
	}
	v.private = own
}

// checkDeals looks for private data that were acknowledged where their member heard of that version.
func (p *replay) checkDeals(a answered, heard map[string][]hearing) {
	for _, hand := range a.deals() {
		if hand.Data != "" { // else there may have been none
			p.checkHeard(a, hand.User, hand.User, dealt(hand.Data), heard[hand.User])
		}
	}
}

// dealings returns how many requests may have set a user's private data to that. A move brings what was dealt in any room.
func (p *replay) dealings(user string, what Detail, s span) (n int) {
	hand := Hand{user, what.Data}
	is := func(q *Request) bool {
		return slices.Contains(q.deals(), hand) || q.Action == MoveIn && q.has(user) && p.room.ledger.dealt[hand]
	}
	return p.possible(is, s)
}

// dealtIn notes what was dealt in a room, or may have been.
func (l *Ledger) dealtIn(r *roomLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note := func(q *Request) {
		for _, hand := range q.deals() {
			l.dealt[hand] = true
		}
	}
	for _, e := range r.epochs {
		for i := range e.requests {
			note(&e.requests[i].Request)
		}
	}
	for i := range r.unanswered {
		note(&r.unanswered[i].Request)
	}
}
