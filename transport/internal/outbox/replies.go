package outbox

import (
	"slices"

	"roomd/room"
	"roomd/transport/internal/frames"
)

// notice is a frame that comes before an event, or now if that is nil.
type notice struct {
	frame  []byte
	before *room.Event
}

// notifyLocked queues what the client has to hear of its own place, each behind the events before it.
func (r *Room) notifyLocked() {
	for _, n := range r.notices {
		first := slices.Index(r.pending, n.before)
		switch {
		case first >= 0:
		case r.ended:
			first = len(r.pending)
		default: // that event was dropped
			first = 0
		}
		r.out.sealLocked(r, first)
		r.out.pushLocked(n.frame)
		r.out.startLocked()
	}
	r.notices = nil
}

// Reply queues the reply to a request that changed the room to a version, or found it there: behind
// the events before that version, and before its own. What the client hears of its own place meanwhile
// comes before it. unclear are events of which it is not known yet whether they show the room without the session.
func (r *Room) Reply(epoch string, version uint64, frame []byte, unclear []*room.Event) {
	o := r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	r.notifyLocked()
	if !r.paused && r.missed == nil {
		n := slices.IndexFunc(r.pending, func(e *room.Event) bool {
			return e.Epoch != epoch || e.Version >= version || e == r.lack || slices.Contains(unclear, e)
		})
		if n < 0 {
			n = len(r.pending)
		}
		if n > 0 {
			o.sealLocked(r, n)
		}
	}
	o.pushLocked(frame)
}

// ReplyList queues a reply that lists the room at a version. Of the room's events, and of what the client hears of
// its own place, only what is behind it is written after it.
func (r *Room) ReplyList(epoch string, version uint64, frame []byte) {
	o := r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dequeueLocked(r)
	behind := r.behind(epoch, version)
	r.clearLocked()
	r.notices = slices.DeleteFunc(r.notices, func(n notice) bool {
		if e := n.before; e != nil && (slices.Contains(behind, e) || e.Epoch == epoch && e.Version > version) {
			return false
		}
		o.pushLocked(n.frame)
		if r.ended {
			behind = nil
		}
		return true
	})
	o.pushLocked(frame)
	r.at = position{epoch, version}
	r.sent = r.at
	for _, e := range behind {
		r.appendLocked(e)
	}
	if r.isCovered(r.sent) {
		r.missed = nil
	}
}

// Lose tells the client, by one frame or several, that its session has no seat in the room any more. Pending events
// come first, up to the first one in by, which may be pushed next, or the first that shows the room without the
// session. Unless the client watches, the loss ends the queue. A reply that is to come now comes behind it.
func (r *Room) Lose(by []*room.Event, watching, replying bool, written ...[]byte) {
	o := r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	n := slices.IndexFunc(r.pending, func(e *room.Event) bool { return e == r.lack || slices.Contains(by, e) })
	var first *room.Event
	switch {
	case n >= 0:
		first = r.pending[n]
	case len(by) > 0:
		first = by[0]
	}
	if n < 0 {
		n = len(r.pending)
	}
	unlisted := r.sent == (position{}) && n > 0 && r.pending[0].Snapshot == nil // they build on no list of the client's
	if r.missed != nil || unlisted {
		n = 0
	}
	if !watching {
		o.dequeueLocked(r)
		for _, e := range r.pending[n:] {
			r.resizeLocked(-frames.Of(e).SizeFor(r.to))
		}
		r.pending, r.missed = r.pending[:n], nil
	}
	r.paused, r.lack = false, nil
	held := r.held && !replying && r.missed == nil
	if !held {
		o.sealLocked(r, n)
	}
	for _, frame := range written {
		if held {
			r.notices = append(r.notices, notice{frame, first})
		} else {
			o.pushLocked(frame)
		}
	}
	if !watching {
		r.endLocked()
	}
	o.enqueueLocked(r)
	o.startLocked()
}

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
// to it: if it needs the list, or if that was dropped. If again is true, also a version that it has from a reply.
func (r *Room) Restart(now *room.Event, needed, again bool) {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if again && r.sent == (position{now.Epoch, now.Version}) {
		r.sent = position{}
	}
	if !r.ended && (needed || r.missed != nil) {
		r.restartLocked(now)
		r.lack = nil
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
