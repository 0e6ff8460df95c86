package transport

import (
	"slices"

	"roomd/room"
)

// stream is the events of one room on their way to one client.
type stream struct {
	held    bool   // a request about the room runs: its reply comes first
	ended   bool   // no more will come
	queued  bool   // it has its place among the items
	epoch   string // where the client will stand after what is pending
	version uint64
	pending []*room.Event
	size    int    // bytes of the changes in pending
	lost    []byte // the frame that follows them, and says that the client's seat is lost; nil if it is not
}

// open makes a place for the events of a room, held until the reply to the
// request that asks for them.
func (o *outbox) open(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.streams[id]; s != nil && s.ended {
		o.releaseLocked(id, s) // what it still has comes before the reply
	}
	o.streams[id] = &stream{held: true}
}

// hold keeps back a room's events until the reply to a request about it, so that
// the reply is not older than what the client has been told.
func (o *outbox) hold(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.streams[id]; s != nil {
		s.held = true
	}
}

// release ends a hold after a reply that says nothing about the room.
func (o *outbox) release(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.streams[id]; s != nil {
		o.releaseLocked(id, s)
	}
}

func (o *outbox) releaseLocked(id string, s *stream) {
	s.held = false
	o.queueLocked(s)
	if s.ended {
		delete(o.streams, id)
	}
}

// close drops a room's events and takes no more of them.
func (o *outbox) close(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.streams[id]; s != nil {
		delete(o.streams, id)
		o.unqueueLocked(s)
		o.emptyLocked(s)
	}
}

// end takes no more of a room's events. Those that have come are still written.
func (o *outbox) end(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.streams[id]; s != nil {
		s.ended = true
		if !s.held {
			delete(o.streams, id)
		}
	}
}

// lost tells the client, behind what has come, that its session has no seat in the room
// any more.
func (o *outbox) lost(id, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.streams[id]; s != nil {
		s.lost = lostFrame(id, reason)
		o.queueLocked(s)
	}
}

// event takes an event of a watched room, unless the client knows it. It reports
// whether the client reads fast enough; if not, no more is kept of the room.
func (o *outbox) event(e *room.Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.streams[e.Room]
	if s == nil || s.ended || e.Epoch == s.epoch && e.Version <= s.version {
		return true
	}
	if e.Snapshot != nil {
		o.emptyLocked(s) // it stands for all of them
	}
	o.appendLocked(s, e)
	if o.waiting.changes+o.taken.changes > o.max {
		o.unqueueLocked(s)
		o.emptyLocked(s)
		s.ended = true
		return false
	}
	o.queueLocked(s)
	return true
}

func (o *outbox) appendLocked(s *stream, e *room.Event) {
	s.pending = append(s.pending, e)
	s.epoch, s.version = e.Epoch, e.Version
	s.size += sharedBy(e).size
	o.waiting.changes += sharedBy(e).size
}

func (o *outbox) emptyLocked(s *stream) {
	o.waiting.changes -= s.size
	s.pending, s.size = nil, 0
}

func (o *outbox) queueLocked(s *stream) {
	if s.held || s.queued || len(s.pending) == 0 && s.lost == nil {
		return
	}
	s.queued = true
	o.items = append(o.items, item{events: s})
	o.startLocked()
}

func (o *outbox) unqueueLocked(s *stream) {
	if s.queued {
		o.items = slices.DeleteFunc(o.items, func(i item) bool { return i.events == s })
		s.queued = false
	}
}
