package outbox

import (
	"slices"

	"roomd/room"
	"roomd/transport/internal/frames"
)

// Room is the queue of one room's events, into which replies about the room, and notices about the session's place,
// are sorted. Its fields are guarded by the outbox's mu.
type Room struct {
	ID  string
	out *Outbox
	to  room.Viewer // the client

	held   bool // a request about the room runs: its reply comes first
	paused bool // the session may have lost its place: nothing is written until that is clear
	ended  bool // it accepts no events: before Begin and after End
	queued bool // it has a position in the outbox

	pending []*room.Event
	size    int         // bytes of the changes in pending
	at      position    // the client's position after pending
	sent    position    // the client's position before pending
	lack    *room.Event // the first pending event that shows a member the room without itself, or nil
	notices []notice    // queued at the latest when held ends

	missed  *position // the last event that was dropped for lack of space, or nil
	filling bool      // a refill runs
}

type position struct {
	epoch   string
	version uint64
}

// Room returns a queue for a room's events, which accepts none before Begin. held is as after Hold.
func (o *Outbox) Room(id string, held bool) *Room {
	return &Room{ID: id, out: o, held: held, ended: true}
}

// Begin makes an ended queue accept events for a viewer. Older pending events are written before them, even if the
// queue is held. It reports false if the queue has not ended.
func (r *Room) Begin(to room.Viewer) (begun bool) {
	o := r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if !r.ended {
		return false
	}
	held := r.held
	r.releaseLocked()
	o.startLocked()
	*r = Room{ID: r.ID, out: o, to: to, held: held, filling: r.filling}
	o.rooms[r] = struct{}{}
	return true
}

// SetViewer changes the viewer of pending and later events.
func (r *Room) SetViewer(to room.Viewer) {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	size := 0
	for _, e := range r.pending {
		size += frames.Of(e).SizeFor(to)
	}
	r.to = to
	r.resizeLocked(size - r.size)
}

// Hold keeps events back until the reply to a request: no event may come before a reply whose list is older.
func (r *Room) Hold() {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	r.held = true
}

// Release ends Hold, after the reply. The caller then writes the queue, or calls Start.
func (r *Room) Release() {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	r.releaseLocked()
}

func (r *Room) releaseLocked() {
	o := r.out
	r.held = false
	r.notifyLocked()
	if r.ended {
		o.sealLocked(r, len(r.pending))
	}
	o.placeLocked(r)
}

// sealLocked moves the first n pending events of a room to the end of the outbox, before all that is queued later.
func (o *Outbox) sealLocked(r *Room, n int) {
	o.dequeueLocked(r)
	if n == 0 {
		return
	}
	size := 0
	for _, e := range r.pending[:n] {
		size += frames.Of(e).SizeFor(r.to)
	}
	o.items = append(o.items, item{events: r.pending[:n:n], size: size})
	last := r.pending[n-1]
	r.sent = position{last.Epoch, last.Version}
	r.pending, r.size = r.pending[n:], r.size-size
}

// Push adds an event, unless the client has it. It reports false if it had to drop events: a snapshot replaces them.
func (r *Room) Push(e *room.Event) (fits bool) {
	o := r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.ended || e.Epoch == r.at.epoch && e.Version <= r.at.version || r.isLate(e) {
		return true
	}
	if e.Snapshot != nil {
		r.clearLocked() // the snapshot replaces them
		r.missed = nil
	}
	if r.isSent(position{e.Epoch, e.Version}) { // a list of its epoch, sent before, covers it
		r.at = r.sent
		o.enqueueLocked(r)
		return true
	}
	r.appendLocked(e)
	fits = true
	for o.isFullLocked() {
		largest := o.largestLocked()
		if largest == nil {
			break
		}
		fits = fits && largest.missed != nil // if missed is set, a drop was reported before
		largest.dropLocked()
	}
	o.enqueueLocked(r)
	return fits
}

// isLate reports whether an event is of an earlier epoch: a new one starts with a snapshot, or where no room was.
func (r *Room) isLate(e *room.Event) bool {
	return e.Snapshot == nil && r.at.epoch != "" && e.Epoch != r.at.epoch && e.From > 0
}

// Pause keeps events back until Resume. lack, if not nil, shows the room without the session; it may be pushed later.
func (r *Room) Pause(lack *room.Event) {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	r.paused = true
	switch {
	case lack == nil, r.lack != nil && lack.Snapshot == nil: // only a snapshot replaces an earlier lack
	case lack.Epoch == r.at.epoch && lack.Version <= r.at.version && !slices.Contains(r.pending, lack): // it is over
	default:
		r.lack = lack
	}
}

// Resume ends Pause.
func (r *Room) Resume() {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	r.paused, r.lack = false, nil
	r.out.enqueueLocked(r)
}

// End stops accepting events. Pending ones are still written if written is true and the queue is not paused.
func (r *Room) End(written bool) {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if !written {
		r.out.dequeueLocked(r)
		r.clearLocked()
	}
	if !r.ended {
		r.endLocked()
	}
	if written {
		r.out.startLocked()
	}
}

func (r *Room) endLocked() {
	r.ended = true
	delete(r.out.rooms, r)
	if r.paused || r.missed != nil {
		r.out.dequeueLocked(r)
		r.clearLocked()
		r.missed = nil
	}
	if !r.held {
		r.out.sealLocked(r, len(r.pending))
	}
}

// isSent reports whether the client has a version, not counting the pending events.
func (r *Room) isSent(at position) bool {
	return r.sent.epoch == at.epoch && r.sent.version >= at.version
}

func (r *Room) appendLocked(e *room.Event) {
	r.pending = append(r.pending, e)
	r.at = position{e.Epoch, e.Version}
	r.resizeLocked(frames.Of(e).SizeFor(r.to))
}

func (r *Room) resizeLocked(by int) {
	r.size += by
	r.out.queued.changes += by
}

func (r *Room) clearLocked() {
	r.resizeLocked(-r.size)
	r.pending = nil
}

// takeLocked removes and returns the pending events, with their size in bytes. It returns none if the queue is held
// or paused, or needs a snapshot first: then TakeStale returns it.
func (r *Room) takeLocked(o *Outbox) (events []*room.Event, size int) {
	r.queued = false
	switch {
	case r.held || r.paused:
		return nil, 0
	case r.missed != nil:
		if !r.filling {
			r.filling = true
			o.stale = append(o.stale, r)
		}
		return nil, 0
	}
	o.taken, size = append(o.taken[:0], r.pending...), r.size
	r.sent = r.at
	r.pending, r.size = emptied(r.pending), 0
	return o.taken, size
}
