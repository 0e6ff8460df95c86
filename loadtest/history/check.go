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
		newReplay(r, r.epochs[0], final).run()
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
	}
}
