// Package history proves that a room server's lists are right, or finds what is wrong
// with them, from nothing but what its clients were told.
//
// Start with [NewLedger]. Each connection of each player opens a [View] per room and
// feeds it the server's replies and events in the order of arrival. A View holds the
// list, the data and the settings that its client must believe in, and reports at once what
// contradicts them. It passes on to the [Ledger] the acknowledgements, the changes committed at
// each version, and fingerprints of what was there at that version. So the ledger notices during
// the run when two clients were told different things.
//
// After the run [Ledger.Check] replays every room version by version and compares the
// outcome with the store, and [Ledger.CheckNode] compares a node's own answer with it.
// [Ledger.Violations] has all that was found.
//
// The package promises that a history which a correct server can produce gives no
// violation: of joins, matches, leaves, data, settings, hosts, seats, messages, timers, kicks, bans, parties and moves. What an
// administrator does who has no View goes to the ledger directly ([Ledger.Done]).
//
// A request with an unknown outcome ([View.Unknown], [View.Unanswered]) may have been committed
// or not. It excuses what it could have done, at versions of which no client saw the
// event, and nothing else. Where too many unknown requests meet in one unseen stretch to
// try all outcomes, the checker gives them the benefit of the doubt.
//
// It cannot see what no client was told and the store does not show. Of time it knows only when
// a join was answered, which it compares with the end of a ban; see [Options].Now.
//
// The package imports none of the server's packages, so that a mistake in the rules
// cannot hide in the proof. It starts no goroutines.
package history

import (
	"maps"
	"slices"
)

// Check replays every room from its start and compares the outcome with final: the
// rooms as the store has them after the last reply and event of the run. The store does
// not know a room that is not in final.
//
// It reports versions that nothing explains (a version gap), acknowledged actions that
// did not happen (lost; those above the final version count once per room), impossible
// changes, lists that the history does not make (diverged), and each user whose place
// differs at the end: lost if an acknowledged action of the user is missing, phantom if
// the user never joined, seat clash or diverged if only the seat differs.
//
// Call Check when all views are done. A second call counts nothing twice.
func (l *Ledger) Check(final map[string]RoomState) {
	l.mu.Lock()
	rooms := maps.Clone(l.rooms)
	l.mu.Unlock()
	for name := range final {
		if rooms[name] == nil {
			rooms[name] = &roomLog{ledger: l, name: name}
		}
	}
	l.dealt = make(map[Hand]bool)
	for _, r := range rooms {
		l.dealtIn(r)
	}
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		rooms[name].check(final[name])
	}
	l.checkMoves(rooms, final)
}

// check replays the room and compares the outcome with final.
func (r *roomLog) check(final RoomState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.epochs) == 0 {
		newReplay(r, newEpochLog(final.Epoch), final).run()
		return
	}
	// A room that is gone altogether is no new epoch. The replay finds what it has lost.
	if final.Epoch != "" {
		r.epochLocked(final.Epoch, final.Version)
	}
	if len(r.epochs) == 1 {
		e := r.epochs[0]
		forgotten := r.forgets && final.Epoch == ""
		if forgotten { // it was empty, whatever else it was
			final = RoomState{Epoch: e.name, Version: newEvidence(e, 0).highest()}
		}
		p := newReplay(r, e, final)
		p.stored = forgotten
		p.run()
		return
	}
	for _, e := range r.epochs {
		if w := e.look(final.Version); e.name == final.Epoch && w.has&(hasPrint|disputed) == hasPrint && w.print() != fingerprintOf(final.Users) {
			r.found(Diverged, e.name, final.Version, "", "the final list is not the one that %s saw", r.ledger.observerName(w.listBy))
		}
	}
}

// CheckNode compares a room as a node answers for it with the room as the store
// has it, both read after the last commit. Any difference counts as one divergence.
func (l *Ledger) CheckNode(node, room string, answer, final RoomState) {
	r, subject := l.room(room), "node "+node
	switch {
	case answer.Epoch != final.Epoch || answer.Version != final.Version:
		r.found(Diverged, final.Epoch, final.Version, subject, "node %s is at version %d of epoch %q, the store at version %d of %q",
			node, answer.Version, answer.Epoch, final.Version, final.Epoch)
	case fingerprintOf(answer.Users) != fingerprintOf(final.Users):
		r.found(Diverged, final.Epoch, final.Version, subject, "node %s has another list (%d users) than the store (%d users)",
			node, len(answer.Users), len(final.Users))
	default:
		if what := contentOf(answer).differs(contentOf(final)); what != "" {
			r.found(Diverged, final.Epoch, final.Version, subject, "node %s has other %s than the store", node, what)
		}
		for user, data := range answer.Private {
			if final.Private[user] != data {
				r.found(Diverged, final.Epoch, final.Version, user, "node %s has other private data of %s than the store", node, user)
			}
		}
	}
}
