package transport

import (
	"slices"
	"sync"

	"roomd/room"
	"roomd/transport/protocol"
)

// itemSize is what an item takes beside its bytes, about.
const itemSize = 64

// outbox is what a connection has yet to write: replies and, for each room that
// it watches, one place for the events that have come meanwhile, in the order in
// which the client has to see them.
type outbox struct {
	start func()        // starts a writer, and does not block
	max   int           // bytes of frames before requests wait, and of changes before the client is too slow
	space chan struct{} // says that something was written

	mu       sync.Mutex
	items    []item             // guarded by mu
	waiting  load               // guarded by mu: to be written
	taken    load               // guarded by mu: being written
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

// load is how many bytes an outbox keeps. Snapshots do not count: of each room there is
// one at most, and everybody who waits for it shares it.
type load struct{ frames, changes int }

func newOutbox(start func(), max int) *outbox {
	return &outbox{start: start, max: max, space: make(chan struct{}, 1), streams: make(map[string]*stream)}
}

// ping queues a frame that nobody has asked for, and reports whether there can be
// another one later.
func (o *outbox) ping(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finished {
		return false
	}
	o.pushLocked(frame)
	o.startLocked()
	return true
}

// await waits while too many bytes of frames are queued, or are being written. A frame
// may be longer than all that may be queued: it is the only one then.
func (o *outbox) await() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.waiting.frames+o.taken.frames >= o.max && !o.finished {
		o.mu.Unlock()
		<-o.space
		o.mu.Lock()
	}
}

// reply queues a reply. Who calls it has waited for space before, and flushes then.
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
	if r.Seat != nil {
		s.lost = nil // it has one again
	}
	pending := s.pending
	o.emptyLocked(s)
	s.epoch, s.version = r.Epoch, r.Version
	// A new epoch begins with a snapshot: changes without one are of an earlier epoch.
	begins := len(pending) > 0 && pending[0].Snapshot != nil
	for _, e := range pending {
		if e.Epoch == r.Epoch && e.Version > r.Version || e.Epoch != r.Epoch && begins {
			o.appendLocked(s, e)
		}
	}
	o.releaseLocked(r.Room, s)
}

func (o *outbox) pushLocked(frame []byte) {
	o.waiting.frames += itemSize + cap(frame)
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
			size := itemSize + cap(i.frame)
			o.waiting.frames -= size
			o.taken.frames += size
			return i.frame, nil
		}
		i.events.queued = false
		if i.events.held {
			continue // its pending events wait for the reply
		}
		events = i.events.pending
		o.taken.changes += i.events.size
		o.emptyLocked(i.events)
		if lost := i.events.lost; lost != nil {
			i.events.lost = nil
			o.waiting.frames += itemSize + cap(lost)
			o.items = slices.Insert(o.items, 0, item{frame: lost})
		}
		if events != nil {
			return nil, events
		}
	}
	return nil, nil
}

// written says that nothing is kept any more of what next has returned.
func (o *outbox) written() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken = load{}
	signal(o.space)
}

// finish says that nothing more will come after last, which is nil for no frame. No
// writer is started any more.
func (o *outbox) finish(last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	if last != nil && !o.dropped {
		o.pushLocked(last)
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
	o.finished, o.dropped, o.items, o.waiting.frames = true, true, nil, 0
	signal(o.space)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
