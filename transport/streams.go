package transport

import (
	"roomd/room"
	"roomd/transport/protocol"
)

// streams are the events of a connection's rooms on their way to its client. They order the
// events behind the replies, bound how many wait, and keep back those that show a room without
// a session that is a member (parked.go).
type streams struct {
	out    *outbox
	user   string             // guarded by out.mu: whose connection it is
	byRoom map[string]*stream // guarded by out.mu
}

// stream is the events of one room on their way to one client. Its fields are guarded by the
// outbox's mu.
type stream struct {
	room    string // its id
	held    bool   // a request about the room runs: its reply comes first
	parked  bool   // the session may have lost its place: nothing is written until that is known
	ended   bool   // it takes no more events
	queued  bool   // it has a place in the outbox
	epoch   string // of the room when the client has read what is pending
	version uint64 // of the room when the client has read what is pending
	pending []*room.Event
	sent    struct { // what the client has, or is being sent, without what is pending
		epoch   string
		version uint64
	}
	size   int            // bytes of the changes in pending
	member string         // the user, if the session is a member; else ""
	lacks  bool           // one of the pending events shows the room without the member
	missed *room.Position // the last event that was dropped while the stream was parked; nil if none was
}

// of says whose connection it is, before the first stream.
func (t *streams) of(user string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	t.user = user
}

// open starts a room's stream, held until the reply to the request that asks for it.
func (t *streams) open(id string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil && s.ended {
		t.releaseLocked(id, s) // its pending events come before the reply
	}
	t.byRoom[id] = &stream{room: id, held: true}
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

// release ends a hold after the reply.
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

// replyList queues a reply that lists a room. Of the room's events only those behind the reply
// are written, after it, when the hold ends.
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
	behind := s.behind(r.Epoch, r.Version)
	s.clearLocked(t.out)
	s.epoch, s.version = r.Epoch, r.Version
	s.sentLocked()
	for _, e := range behind {
		s.appendLocked(t.out, e)
	}
	s.coverLocked(r.Epoch, r.Version)
}

// behind returns the pending events behind a list. A new epoch begins with a snapshot, or at version
// 0 where the list shows that there was no room yet. Other changes are of an earlier epoch. Should a
// room have begun and be gone again before the list was read, a snapshot follows that says so.
func (s *stream) behind(epoch string, version uint64) (events []*room.Event) {
	begins := len(s.pending) > 0 && (s.pending[0].Snapshot != nil || version == 0 && s.pending[0].From == 0)
	for _, e := range s.pending {
		if e.Epoch == epoch && e.Version > version || e.Epoch != epoch && begins {
			events = append(events, e)
		}
	}
	return events
}

// push adds an event to its room's stream, unless the client has it already. It reports
// false, and ends the stream, if too many changes wait for the client.
func (t *streams) push(e *room.Event) bool {
	o := t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	s := t.byRoom[e.Room]
	if s == nil || s.ended || e.Epoch == s.epoch && e.Version <= s.version || s.isLate(e) {
		return true
	}
	if e.Snapshot != nil {
		s.clearLocked(o) // the snapshot stands for all of them
		s.missed = nil
	}
	if s.isSent(e.Epoch, e.Version) { // and a list of the same epoch came before
		s.epoch, s.version = s.sent.epoch, s.sent.version
		o.enqueueLocked(s)
		return true
	}
	s.appendLocked(o, e)
	if o.isFullLocked() {
		t.dropParkedLocked()
	}
	if o.isFullLocked() {
		o.dequeueLocked(s)
		s.clearLocked(o)
		s.ended = true
		return false
	}
	o.enqueueLocked(s)
	return true
}

// end closes a room's stream to further events. The pending ones are still written, unless the
// stream is parked.
func (t *streams) end(id string) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if s := t.byRoom[id]; s != nil {
		t.endLocked(id, s)
	}
}

func (t *streams) endLocked(id string, s *stream) {
	s.ended = true
	if s.isParked() {
		t.out.dequeueLocked(s)
		s.clearLocked(t.out)
	}
	if !s.held {
		delete(t.byRoom, id)
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

// sentLocked records that the client gets what is pending now.
func (s *stream) sentLocked() { s.sent.epoch, s.sent.version = s.epoch, s.version }

// isSent reports whether the client has a version, without what is pending.
func (s *stream) isSent(epoch string, version uint64) bool {
	return s.sent.epoch == epoch && s.sent.version >= version
}

func (s *stream) appendLocked(o *outbox, e *room.Event) {
	size := eventFrameOf(e).sizeFor(o.streams.user)
	s.lacks = s.lacks || s.showsLack(e)
	s.pending = append(s.pending, e)
	s.epoch, s.version = e.Epoch, e.Version
	s.size += size
	o.queued.changes += size
}

func (s *stream) clearLocked(o *outbox) {
	o.queued.changes -= s.size
	s.pending, s.size, s.lacks = nil, 0, false
}
