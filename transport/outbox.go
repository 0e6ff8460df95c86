package transport

import (
	"slices"
	"sync"

	"roomd/room"
	"roomd/transport/protocol"
)

const (
	// maxReplies is how many replies may wait to be written before the
	// connection's requests do.
	maxReplies = 64

	// maxPending is how many changes of one room may wait to be written before
	// the client counts as too slow.
	maxPending = 4096
)

// outbox is what a connection has yet to write: replies and, for each room that
// it watches, one place for the events that have come meanwhile, in the order in
// which the client has to see them.
type outbox struct {
	wake  chan struct{} // says that there is something to write, or nothing more to come
	space chan struct{} // says that replies have been written

	mu       sync.Mutex
	items    []item             // guarded by mu
	replies  int                // guarded by mu: items that are replies
	streams  map[string]*stream // guarded by mu: rooms that are watched
	finished bool               // guarded by mu
}

// item is a reply, or the place of a room's events.
type item struct {
	reply  []byte
	events *stream
}

// stream is the events of one room on their way to one client.
type stream struct {
	held    bool   // a request about the room runs: its reply comes first
	ended   bool   // no more will come
	queued  bool   // it has its place among the items
	epoch   string // where the client will stand after what is pending
	version uint64
	pending []*room.Event
	size    int // changes in pending
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), space: make(chan struct{}, 1), streams: make(map[string]*stream)}
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

// event takes an event of a watched room, unless the client knows it. It reports
// whether there was place for it.
func (o *outbox) event(e *room.Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.streams[e.Room]
	if s == nil || s.ended || e.Epoch == s.epoch && e.Version <= s.version {
		return true
	}
	if e.Snapshot != nil {
		s.pending, s.size = nil, 0 // it stands for all of them
	}
	s.pending = append(s.pending, e)
	s.size += 1 + len(e.Changes)
	s.epoch, s.version = e.Epoch, e.Version
	o.queueLocked(s)
	return s.size <= maxPending
}

// reply queues a frame, and waits while too many are queued already.
func (o *outbox) reply(r *protocol.Reply) { o.push(r, false) }

// replySnapshot queues a reply that lists a room, and ends the hold. Of the
// room's events only those behind the reply are still to be written, after it.
func (o *outbox) replySnapshot(r *protocol.Reply) { o.push(r, true) }

func (o *outbox) push(r *protocol.Reply, snapshot bool) {
	frame := protocol.AppendReply(nil, r)
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.replies >= maxReplies && !o.finished {
		o.mu.Unlock()
		<-o.space
		o.mu.Lock()
	}
	o.items = append(o.items, item{reply: frame})
	o.replies++
	if s := o.streams[r.Room]; s != nil && snapshot {
		o.unqueueLocked(s)
		s.size = 0
		s.pending = slices.DeleteFunc(s.pending, func(e *room.Event) bool {
			return e.Epoch == r.Epoch && e.Version <= r.Version
		})
		s.epoch, s.version = r.Epoch, r.Version
		for _, e := range s.pending {
			s.epoch, s.version = e.Epoch, e.Version
			s.size += 1 + len(e.Changes)
		}
		o.releaseLocked(r.Room, s)
	}
	signal(o.wake)
}

func (o *outbox) queueLocked(s *stream) {
	if s.held || s.queued || len(s.pending) == 0 {
		return
	}
	s.queued = true
	o.items = append(o.items, item{events: s})
	signal(o.wake)
}

func (o *outbox) unqueueLocked(s *stream) {
	if s.queued {
		o.items = slices.DeleteFunc(o.items, func(i item) bool { return i.events == s })
		s.queued = false
	}
}

// next returns what is to be written next: a reply, or the events of one room
// since they were last written. Neither means that there is nothing; the end is
// reached when finished is true as well.
func (o *outbox) next() (reply []byte, events []*room.Event, finished bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.items) > 0 {
		i := o.items[0]
		o.items = slices.Delete(o.items, 0, 1)
		if i.events == nil {
			o.replies--
			signal(o.space)
			return i.reply, nil, o.finished
		}
		i.events.queued = false
		if i.events.held {
			continue // its pending events wait for the reply
		}
		events = i.events.pending
		i.events.pending, i.events.size = nil, 0
		return nil, events, o.finished
	}
	return nil, nil, o.finished
}

// finish says that nothing more will come, or that nothing more can be written.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	signal(o.wake)
	signal(o.space)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
