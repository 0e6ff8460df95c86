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
		n := 0
		for n < len(r.pending) && r.pending[n].Epoch == epoch && r.pending[n].Version < version && r.pending[n] != r.lack && !slices.Contains(unclear, r.pending[n]) {
			n++
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

// Lose tells the client, by one frame or several, that its session has no seat in the room any more. What is pending comes first, but for
// what shows the room without the session, and from the first of by on, which may be pushed next. Unless
// the client watches, the loss is the last that it hears of the room. A reply that is to come now comes behind it.
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
	if r.missed != nil || r.sent == (position{}) && n > 0 && r.pending[0].Snapshot == nil { // the client has no list that they build on
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
