package outbox

import (
	"slices"

	"roomd/room"
	"roomd/transport/internal/frames"
)

// Room is the queue of one room's events. It sorts replies about the room, and notices of a lost seat, in among them.
// Call its methods with Outbox.Mu locked.
type Room struct {
	out   *Outbox
	stale func()      // called to start reading a snapshot for Refill; it does not block
	to    room.Viewer // the client

	held   bool // a request about the room runs: its reply comes first
	paused bool // the session may have lost its place: nothing is written until that is clear
	ended  bool // it accepts no events: before Begin and after End
	queued bool // it has a position in the outbox

	pending []*room.Event
	size    int           // bytes of the changes in pending
	at      room.Position // the client's position after pending; positions here have no CommitID
	sent    room.Position // the client's position before pending
	lack    *room.Event   // the first pending event that shows a member the room without itself, or nil
	notices []notice      // queued at the latest when held ends

	Missed  *room.Position // of the last event dropped for lack of space; nil for none, or once a snapshot covers it
	filling bool           // stale was called, and Refill not yet
}

// notice is a frame that comes before an event, or at once if before is nil.
type notice struct {
	frame  []byte
	before *room.Event
}

func positionOf(e *room.Event) room.Position {
	return room.Position{Epoch: e.Epoch, Version: e.Version}
}

// shows reports whether at is the position other, or a later one of the same epoch.
func shows(at, other room.Position) bool {
	return at.Epoch == other.Epoch && at.Version >= other.Version
}

// Room returns a queue for a room's events, which accepts none before Begin. stale starts to read for Refill.
func (o *Outbox) Room(stale func()) Room {
	return Room{out: o, stale: stale, ended: true}
}

// Begin makes an ended queue accept events for a viewer. Events and notices that still wait from before the end go to
// the outbox first. Begin reports false if the queue has not ended.
func (r *Room) Begin(to room.Viewer) (begun bool) {
	if !r.ended {
		return false
	}
	r.notify()
	r.seal(len(r.pending))
	r.out.startLocked()
	*r = Room{out: r.out, stale: r.stale, to: to, held: r.held, filling: r.filling}
	r.out.rooms[r] = struct{}{}
	return true
}

// SetViewer changes the viewer of pending and later events.
func (r *Room) SetViewer(to room.Viewer) {
	r.to = to
	r.resize(r.sizeOf(r.pending) - r.size)
}

// Gate sets why events wait. held: a request about the room runs, whose list may be older. paused: the session may
// have lost its place. Without a reason they are written. When held ends, Gate starts no writer: the caller writes the
// queue.
func (r *Room) Gate(held, paused bool) {
	released := r.held && !held
	r.held, r.paused = held, paused
	if !paused {
		r.lack = nil
	}
	if released {
		r.notify()
		if r.ended {
			r.seal(len(r.pending))
		}
	}
	if r.place() && !released {
		r.out.startLocked()
	}
}

// Lack marks event e, which is pending or will be pushed next: it shows a member the room without itself. It ignores a
// sent event. Of several it marks the first, or the latest snapshot.
func (r *Room) Lack(e *room.Event) {
	over := shows(r.at, positionOf(e)) && !slices.Contains(r.pending, e)
	if !over && (r.lack == nil || e.Snapshot != nil) { // only a snapshot replaces an earlier one
		r.lack = e
	}
}

// End ends the queue: it drops the pending events, and accepts no more. If the queue has ended, it does nothing.
func (r *Room) End() {
	if !r.ended {
		r.dequeue()
		r.clear()
		r.ended, r.Missed = true, nil
		delete(r.out.rooms, r)
	}
}

// Push adds an event, unless the queue has ended, or the client has the event or a later epoch. It reports false if a
// queue of the outbox begins to drop events, which a snapshot will replace.
func (r *Room) Push(e *room.Event) (fits bool) {
	// A new epoch starts with a snapshot, or where no room was; other events of another epoch are of an earlier one.
	late := e.Snapshot == nil && r.at.Epoch != "" && e.Epoch != r.at.Epoch && e.From > 0
	if r.ended || shows(r.at, positionOf(e)) || late {
		return true
	}
	if e.Snapshot != nil {
		r.clear() // the snapshot replaces them
		r.Missed = nil
	}
	if shows(r.sent, positionOf(e)) { // a list of its epoch, sent before, covers it
		r.at = r.sent
		r.enqueue()
		return true
	}
	r.append(e)
	fits = r.out.boundLocked()
	r.enqueue()
	return fits
}

// notify queues the notices about the session's own place, each after the events before it. It starts a writer.
func (r *Room) notify() {
	for _, n := range r.notices {
		first := slices.Index(r.pending, n.before)
		switch {
		case first >= 0:
		case r.ended:
			first = len(r.pending)
		default: // n.before was dropped, or is nil
			first = 0
		}
		r.seal(first)
		r.out.PushLocked(n.frame)
		r.out.startLocked()
	}
	r.notices = nil
}

// Reply queues a reply that shows the room at a version: after all notices and older events, before the event of that
// version and those in unclear, which may show the room without the session. While the queue is paused or has dropped
// events, the reply comes before all events.
func (r *Room) Reply(at room.Position, frame []byte, unclear []*room.Event) {
	r.notify()
	if !r.paused && r.Missed == nil {
		n := slices.IndexFunc(r.pending, func(e *room.Event) bool {
			return e.Epoch != at.Epoch || e.Version >= at.Version || e == r.lack || slices.Contains(unclear, e)
		})
		if n < 0 {
			n = len(r.pending)
		}
		if n > 0 {
			r.seal(n)
		}
	}
	r.out.PushLocked(frame)
}

// ReplyList queues a reply that lists the room at a version. Only events and notices after that version follow it.
func (r *Room) ReplyList(at room.Position, frame []byte) {
	r.dequeue()
	behind := r.behind(at)
	r.clear()
	r.notices = slices.DeleteFunc(r.notices, func(n notice) bool {
		if e := n.before; e != nil && (slices.Contains(behind, e) || e.Epoch == at.Epoch && e.Version > at.Version) {
			return false
		}
		r.out.PushLocked(n.frame)
		if r.ended {
			behind = nil
		}
		return true
	})
	r.out.PushLocked(frame)
	r.at, r.sent = at, at
	for _, e := range behind {
		r.append(e)
	}
	if r.Missed != nil && shows(at, *r.Missed) {
		r.Missed = nil
	}
}

// Lose queues written, the frames that announce the loss of a seat or watch, before the first pending event that may
// show the loss: lack, or one of by. The first of by may be pushed later. Unless the client watches, that event and
// later ones are dropped, and the queue ends. replying says that a reply follows at once.
func (r *Room) Lose(by []*room.Event, watching, replying bool, written ...[]byte) {
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
	unlisted := r.sent == (room.Position{}) && n > 0 && r.pending[0].Snapshot == nil // the client has no list yet
	if r.Missed != nil || unlisted {
		n = 0
	}
	if !watching {
		r.dequeue()
		r.resize(-r.sizeOf(r.pending[n:]))
		r.pending = r.pending[:n]
		r.ended, r.Missed = true, nil
		delete(r.out.rooms, r)
	}
	r.paused, r.lack = false, nil
	held := r.held && !replying && r.Missed == nil
	if !held {
		r.seal(n)
	}
	for _, frame := range written {
		if held {
			r.notices = append(r.notices, notice{frame, first})
		} else {
			r.out.PushLocked(frame)
		}
	}
	r.place()
	r.out.startLocked()
}

// A list of the room, by a reply, a recovery or a refill, replaces the events that it covers, even dropped ones.

// behind returns the pending events after a list. Events of another epoch count only if that epoch began later: with
// a snapshot, or from version 0 if the list shows no room. (If that room was gone again before the list was read, a
// snapshot follows.) If the first of them is lack, that epoch ended before the list, and behind returns none.
func (r *Room) behind(at room.Position) (events []*room.Event) {
	begins := len(r.pending) > 0 && (r.pending[0].Snapshot != nil || at.Version == 0 && r.pending[0].From == 0)
	for _, e := range r.pending {
		if e.Epoch == at.Epoch && e.Version > at.Version || e.Epoch != at.Epoch && begins {
			events = append(events, e)
		}
	}
	if len(events) > 0 && events[0] == r.lack && r.lack.Epoch != at.Epoch {
		return nil
	}
	return events
}

// Restart replaces the pending events up to now, a snapshot from an action of the session, if events were dropped or
// the client needs the snapshot (needed). If again, it does so even if a reply has shown that version.
func (r *Room) Restart(now *room.Event, needed, again bool) {
	if again && r.sent == positionOf(now) {
		r.sent = room.Position{}
	}
	if !r.ended && (needed || r.Missed != nil) {
		r.replace(now)
		r.lack = nil
	}
}

// Refill replaces dropped events by the snapshot in now. It reports false if the snapshot is older than the last of
// them. With nil it only ends the refill: a recovery's snapshot or another refill replaces events still missed.
func (r *Room) Refill(now *room.Event) bool {
	if r.Missed != nil && now != nil {
		if r.replace(now); r.Missed != nil {
			return false
		}
	}
	r.filling = false
	r.enqueue()
	return true
}

// replace replaces the pending events that the snapshot in now covers. It does nothing if dropped events are later.
func (r *Room) replace(now *room.Event) {
	at := positionOf(now)
	if r.Missed != nil && !shows(at, *r.Missed) {
		return
	}
	r.Missed = nil
	behind := r.behind(at)
	r.clear()
	switch {
	case shows(r.sent, at): // the client has the snapshot
		r.at = r.sent
	case len(behind) == 0 || behind[0].Snapshot == nil:
		r.pending, r.at = append(r.pending, now), at
	}
	for _, e := range behind {
		r.append(e)
	}
}

// drop drops the pending events. A snapshot will replace them.
func (r *Room) drop() {
	r.dequeue()
	r.Missed = new(r.at)
	r.clear()
	r.enqueue()
}

func (r *Room) append(e *room.Event) {
	r.pending = append(r.pending, e)
	r.at = positionOf(e)
	r.resize(frames.Of(e).SizeFor(r.to))
}

func (r *Room) sizeOf(events []*room.Event) (size int) {
	for _, e := range events {
		size += frames.Of(e).SizeFor(r.to)
	}
	return size
}

func (r *Room) resize(by int) {
	r.size += by
	r.out.queued.changes += by
}

func (r *Room) clear() {
	r.resize(-r.size)
	r.pending = emptied(r.pending)
}
