package history

import (
	"maps"
	"slices"
)

// Check replays every room from its start and compares the outcome with final:
// the rooms as the store has them after the last reply and event of the run. A
// room that is not in final is one that the store does not know.
//
// It reports versions that nothing explains (a version gap), acknowledgements
// that did not happen (lost; also all of those above the final version, once per
// room), changes that cannot be, lists that are not those that the history makes
// (diverged), and each user whose place differs in the end: lost if an
// acknowledged action of the user is missing, phantom if the user never joined,
// seat clash or diverged if only the seat is another.
//
// Call it once all views are done; calling it again counts nothing twice.
func (l *Ledger) Check(final map[string]RoomState) {
	l.mu.Lock()
	rooms := maps.Clone(l.rooms)
	l.mu.Unlock()
	for name := range final {
		if rooms[name] == nil {
			rooms[name] = &roomLog{name: name}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		l.checkRoom(rooms[name], final[name])
	}
}

func (l *Ledger) checkRoom(r *roomLog, final RoomState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.epochs) == 0 {
		newReplay(l, r, newEpochLog(final.Epoch), final).run()
		return
	}
	// A room that is gone altogether has lost what was told of it. That is for the
	// replay to find out, not a new epoch.
	if final.Epoch != "" {
		l.epochLocked(r, final.Epoch, final.Version)
	}
	if len(r.epochs) == 1 {
		newReplay(l, r, r.epochs[0], final).run()
		return
	}
	for _, e := range r.epochs {
		if w := e.look(final.Version); e.name == final.Epoch && w.has&(hasPrint|disputed) == hasPrint && w.print() != fingerprintOf(final.Users) {
			l.found(place{Diverged, r.name, e.name, final.Version, ""}, final.Version,
				"the final list is not the one that %s saw", l.observerName(w.by))
		}
	}
}

// CheckNode compares a room as a node answers for it with the room as the store
// has it, both read after the last commit. Any difference is one divergence.
func (l *Ledger) CheckNode(node, room string, answer, final RoomState) {
	p := place{Diverged, room, final.Epoch, final.Version, "node " + node}
	switch {
	case answer.Epoch != final.Epoch || answer.Version != final.Version:
		l.found(p, final.Version, "node %s is at version %d of epoch %q, the store at version %d of %q",
			node, answer.Version, answer.Epoch, final.Version, final.Epoch)
	case fingerprintOf(answer.Users) != fingerprintOf(final.Users):
		l.found(p, final.Version, "node %s has another list (%d users) than the store (%d users)",
			node, len(answer.Users), len(final.Users))
	}
}
