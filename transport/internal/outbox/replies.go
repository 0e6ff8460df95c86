package outbox

import (
	"slices"

	"roomd/room"
	"roomd/transport/internal/frames"
)

// notice is a frame that comes before an event, or at once if before is nil.
type notice struct {
	frame  []byte
	before *room.Event
}

// notifyLocked queues the notices about the session's own place, each behind the events before it.
func (r *Room) notifyLocked() {
	for _, n := range r.notices {
		first := slices.Index(r.pending, n.before)
		switch {
		case first >= 0:
		case r.ended:
			first = len(r.pending)
		default: // n.before was dropped, or is nil
			first = 0
		}
		r.out.sealLocked(r, first)
		r.out.pushLocked(n.frame)
		r.out.startLocked()
	}
	r.notices = nil
}

// Reply queues the reply to a request that left the room at a version, or found it there: after older events and all
// notices, and before the version's own event. unclear are events that may show the room without the session.
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

// ReplyList queues a reply that lists the room at a version. Only events and notices after that version follow it.
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

// Lose queues frames that tell the client that its session has lost its seat. Pending events come first, up to the
// first one in by, which may be pushed next, or the first that shows the room without this session. Unless the client
// watches, the queue ends. replying says that a reply follows at once.
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
	unlisted := r.sent == (position{}) && n > 0 && r.pending[0].Snapshot == nil // the client has no list yet
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

// A list of the room, by a reply, a recovery or a refill, replaces the events that it covers, even dropped ones.

// behind returns the pending events after a list. Events of another epoch count only if it began later: with a
// snapshot, or from version 0 if the list shows no room. (If that room was gone again before the list was read, a
// snapshot follows.) It returns none if the first is lack, of another epoch: that epoch ended before the list.
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

// Restart replaces pending events by now, a snapshot that an action of the session found: if the client needs the
// list, or if events were dropped. again sends even a version that the client has from a reply.
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

// restartLocked replaces pending events up to a snapshot, unless the client has it, or it lacks dropped events.
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

// isCovered reports whether the room at a version includes all dropped events.
func (r *Room) isCovered(at position) bool {
	return r.missed == nil || r.missed.epoch == at.epoch && r.missed.version <= at.version
}

// dropLocked drops the pending events. A snapshot will replace them.
func (r *Room) dropLocked() {
	r.out.dequeueLocked(r)
	r.missed = &position{r.at.epoch, r.at.version}
	r.clearLocked()
	r.out.enqueueLocked(r)
}

// Missed returns the position of the last dropped event, or nil.
func (r *Room) Missed() *room.Position {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if r.missed == nil {
		return nil
	}
	return &room.Position{Epoch: r.missed.epoch, Version: r.missed.version}
}

// Refill replaces dropped events by a snapshot. It reports false if the snapshot is older than they are. If
// now is nil, it only ends the refill: after a pause comes a snapshot, or another refill.
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
