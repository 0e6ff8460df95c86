package transport

import (
	"roomd/room"
	"roomd/transport/protocol"
)

// streams are the events of a connection's rooms on their way to its client. They order the
// events behind the replies, and bound how many wait.
type streams struct {
	out    *outbox
	byRoom map[string]*stream // guarded by out.mu
}

// stream is the events of one room on their way to one client. Its fields are guarded by the
// outbox's mu.
type stream struct {
	held    bool   // a request about the room runs: its reply comes first
	ended   bool   // it takes no more events
	queued  bool   // it has a place in the outbox
	epoch   string // of the room when the client has read what is pending
	version uint64 // of the room when the client has read what is pending
	pending []*room.Event
	size    int    // bytes of the changes in pending
	lost    []byte // the frame behind them that says that the seat is lost; nil if it is not
}

// open starts a room's stream, held until the reply to the request that asks for it.
func (t *streams) open(id string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil && s.ended {
		t.releaseLocked(id, s) // its pending events come before the reply
	}
	t.byRoom[id] = &stream{held: true}
}

// hold keeps back a room's events until the reply to a request about it. Without that the
// client could get a list that is older than the events before it.
func (t *streams) hold(id string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil {
		s.held = true
	}
}

// release ends a hold after a reply that does not list the room.
func (t *streams) release(id string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil {
		t.releaseLocked(id, s)
	}
}

func (t *streams) releaseLocked(id string, s *stream) {
	s.held = false
	t.out.enqueueLocked(s)
	if s.ended {
		delete(t.byRoom, id)
	}
}

// replyList queues a reply that lists a room, and ends the hold. Of the room's events only
// those behind the reply are written, after it.
func (t *streams) replyList(r *protocol.Reply) {
	frame := replyFrame(r)
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	t.out.pushLocked(frame)
	s := t.byRoom[r.Room]
	if s == nil {
		return
	}
	t.out.dequeueLocked(s)
	if r.Seat != nil {
		s.lost = nil // it has one again
	}
	pending := s.pending
	s.clearLocked(t.out)
	s.epoch, s.version = r.Epoch, r.Version
	// A new epoch begins with a snapshot: changes without one are of an earlier epoch.
	begins := len(pending) > 0 && pending[0].Snapshot != nil
	for _, e := range pending {
		if e.Epoch == r.Epoch && e.Version > r.Version || e.Epoch != r.Epoch && begins {
			s.appendLocked(t.out, e)
		}
	}
	t.releaseLocked(r.Room, s)
}

// push adds an event to its room's stream, unless the client has it already. It reports
// false, and ends the stream, if too many changes wait for the client.
func (t *streams) push(e *room.Event) bool {
	o := t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	s := t.byRoom[e.Room]
	if s == nil || s.ended || e.Epoch == s.epoch && e.Version <= s.version {
		return true
	}
	if e.Snapshot != nil {
		s.clearLocked(o) // the snapshot stands for all of them
	}
	s.appendLocked(o, e)
	if o.queued.changes+o.inFlight.changes > o.max {
		o.dequeueLocked(s)
		s.clearLocked(o)
		s.ended = true
		return false
	}
	o.enqueueLocked(s)
	return true
}

// lost tells the client, after the pending events, that its session has no seat in the room
// any more. Unless the client watches, that is the last it hears of the room.
func (t *streams) lost(id, reason string, watching bool) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil {
		s.lost, s.ended = lostFrame(id, reason), s.ended || !watching
		t.out.enqueueLocked(s)
	}
}

// end closes a room's stream to further events. The pending ones are still written.
func (t *streams) end(id string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil {
		s.ended = true
		if !s.held {
			delete(t.byRoom, id)
		}
	}
}

// drop closes a room's stream and drops its pending events.
func (t *streams) drop(id string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil {
		delete(t.byRoom, id)
		t.out.dequeueLocked(s)
		s.clearLocked(t.out)
	}
}

func (s *stream) appendLocked(o *outbox, e *room.Event) {
	size := eventFrameOf(e).size
	s.pending = append(s.pending, e)
	s.epoch, s.version = e.Epoch, e.Version
	s.size += size
	o.queued.changes += size
}

func (s *stream) clearLocked(o *outbox) {
	o.queued.changes -= s.size
	s.pending, s.size = nil, 0
}
