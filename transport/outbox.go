package transport

import (
	"slices"
	"sync"

	"roomd/room"
	"roomd/transport/protocol"
)

// maxFrames is how many replies may wait to be written before the connection's
// requests do.
const maxFrames = 64

// outbox is what a connection has yet to write: replies and, for each room that
// it watches, one place for the events that have come meanwhile, in the order in
// which the client has to see them.
type outbox struct {
	start func()        // starts a writer, and does not block
	space chan struct{} // says that frames have been taken to be written

	mu       sync.Mutex
	items    []item             // guarded by mu
	frames   int                // guarded by mu: items that are frames
	streams  map[string]*stream // guarded by mu: rooms that are watched
	writing  bool               // guarded by mu: somebody writes, until more says no
	finished bool               // guarded by mu: nothing more will come
	dropped  bool               // guarded by mu: nothing more can be written
}

// item is the frame of a reply (or a ping, or the like), or the place of a room's
// events.
type item struct {
	frame  []byte
	events *stream
}

func newOutbox(start func()) *outbox {
	return &outbox{start: start, space: make(chan struct{}, 1), streams: make(map[string]*stream)}
}

// ping queues a frame that nobody has asked for, and reports whether there can be
// another one later.
func (o *outbox) ping(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finished {
		return false
	}
	o.frames++
	o.items = append(o.items, item{frame: frame})
	o.startLocked()
	return true
}

// reply queues a reply, and waits while too much is queued already. Who calls it
// flushes then.
func (o *outbox) reply(r *protocol.Reply) { o.push(replyFrame(r)) }

// push is reply for any frame.
func (o *outbox) push(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pushLocked(frame)
}

// replySnapshot is reply for one that lists a room, and ends the hold. Of the room's
// events only those behind the reply are still to be written, after it.
func (o *outbox) replySnapshot(r *protocol.Reply) {
	frame := replyFrame(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pushLocked(frame)
	s := o.streams[r.Room]
	if s == nil {
		return
	}
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

// pushLocked unlocks while it waits.
func (o *outbox) pushLocked(frame []byte) {
	for o.frames >= maxFrames && !o.finished {
		o.mu.Unlock()
		<-o.space
		o.mu.Lock()
	}
	o.frames++
	o.items = append(o.items, item{frame: frame})
}

// startLocked starts a writer, unless somebody writes.
func (o *outbox) startLocked() {
	if o.claimLocked() {
		o.start()
	}
}

// claim reports whether the caller has to write what is queued.
func (o *outbox) claim() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claimLocked()
}

func (o *outbox) claimLocked() bool {
	if o.writing || o.finished || len(o.items) == 0 {
		return false
	}
	o.writing = true
	return true
}

// more reports whether who writes has to go on. Once finished, what is left is for
// another to write.
func (o *outbox) more() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = len(o.items) > 0 && !o.finished
	return o.writing
}

// next returns what is to be written next: a frame, or the events of one room
// since they were last written. Neither means that there is nothing.
func (o *outbox) next() (frame []byte, events []*room.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.items) > 0 {
		i := o.items[0]
		o.items = slices.Delete(o.items, 0, 1)
		if i.events == nil {
			o.frames--
			signal(o.space)
			return i.frame, nil
		}
		i.events.queued = false
		if i.events.held {
			continue // its pending events wait for the reply
		}
		events = i.events.pending
		i.events.pending, i.events.size = nil, 0
		return nil, events
	}
	return nil, nil
}

// finish says that nothing more will come after last, which is nil for no frame. No
// writer is started any more.
func (o *outbox) finish(last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	if last != nil && !o.dropped {
		o.frames++
		o.items = append(o.items, item{frame: last})
	}
	signal(o.space)
}

// left reports whether something is to be written yet.
func (o *outbox) left() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.items) > 0
}

// drop says that nothing can be written any more.
func (o *outbox) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished, o.dropped, o.items = true, true, nil
	signal(o.space)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
