package outbox

import "roomd/room"

// A list of the room, from a reply or as an action of the session or a refill has found it, takes the place of
// the events that it covers, also of those that were dropped.

// behind returns the pending events behind a list. A new epoch begins with a snapshot, or at version
// 0 where the list shows that there was no room yet. Other changes are of an earlier epoch. Should a
// room have begun and be gone again before the list was read, a snapshot follows that says so. Where another
// epoch lacks the member, and nothing newer than the list does, it came before the list and is over.
func (r *Room) behind(epoch string, version uint64) (events []*room.Event) {
	begins := len(r.pending) > 0 && (r.pending[0].Snapshot != nil || version == 0 && r.pending[0].From == 0)
	for _, e := range r.pending {
		if e.Epoch == epoch && e.Version > version || e.Epoch != epoch && begins {
			events = append(events, e)
		}
	}
	if len(events) > 0 && events[0] == r.lack && r.lack.Epoch != epoch {
		return nil
	}
	return events
}

// Restart gives the client the room as an action of the session has found it, in place of what is pending up
// to it: if it needs the list, or if that was dropped.
func (r *Room) Restart(now *room.Event, needed bool) {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if !r.ended && (needed || r.missed != nil) {
		r.restartLocked(now)
		r.lack = nil
	}
}

// Again lets Restart give the client a version that it has from the list of a reply.
func (r *Room) Again(now *room.Event) {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if r.sent == (position{now.Epoch, now.Version}) {
		r.sent = position{}
	}
}

// restartLocked replaces what is pending up to a snapshot, unless the client has that version, or
// the snapshot does not make up for what was dropped.
func (r *Room) restartLocked(now *room.Event) {
	at := position{now.Epoch, now.Version}
	if !r.isCovered(at) {
		return
	}
	r.missed = nil
	behind := r.behind(now.Epoch, now.Version)
	r.clearLocked()
	switch {
	case r.isSent(at):
		r.at = r.sent
	case len(behind) == 0 || behind[0].Snapshot == nil:
		r.pending, r.at = append(r.pending, now), at
	}
	for _, e := range behind {
		r.appendLocked(e)
	}
}

// isCovered reports whether the room at a version makes up for what was dropped.
func (r *Room) isCovered(at position) bool {
	return r.missed == nil || r.missed.epoch == at.epoch && r.missed.version <= at.version
}

// dropLocked drops what is pending. A snapshot will stand for it.
func (r *Room) dropLocked() {
	r.out.dequeueLocked(r)
	r.missed = &position{r.at.epoch, r.at.version}
	r.clearLocked()
	r.out.enqueueLocked(r)
}

// Missed returns the last event that was dropped, or nil.
func (r *Room) Missed() *room.Position {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if r.missed == nil {
		return nil
	}
	return &room.Position{Epoch: r.missed.epoch, Version: r.missed.version}
}

// Refill gives the client a snapshot in place of the events that were dropped. It reports false if the
// room is older than those. Without a snapshot it only ends the refill: while the queue is paused, what
// ends that has one, or leads to another refill.
func (r *Room) Refill(now *room.Event) bool {
	o := r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.missed != nil && now != nil {
		if r.restartLocked(now); r.missed != nil {
			return false
		}
	}
	r.filling = false
	o.enqueueLocked(r)
	return true
}
