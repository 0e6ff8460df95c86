package transport

import (
	"slices"
	"sync"

	"roomd/room"
)

// itemSize is about what an item takes beside its bytes.
const itemSize = 64

// outbox is what a connection has yet to write, in the order in which the client has to see
// it: frames (replies, pings and the like), and one place for each room with unwritten events.
type outbox struct {
	start   func()        // starts a writer; it does not block
	max     int           // bytes of frames before requests wait, and of changes before the client is too slow
	space   chan struct{} // receives when something was written
	streams *streams

	mu       sync.Mutex
	items    []item // guarded by mu
	queued   load   // guarded by mu: in items
	inFlight load   // guarded by mu: being written
	writing  bool   // guarded by mu: there is a writer, until keepWriting says no
	finished bool   // guarded by mu: nothing is queued any more
	broken   bool   // guarded by mu: nothing can be written any more
}

// item is a frame, or the place of a room's events.
type item struct {
	frame  []byte
	stream *stream
}

// load is how many bytes an outbox keeps. Snapshots do not count: of each room there is one
// at most, and all connections that wait for it share it.
type load struct{ frames, changes int }

func newOutbox(start func(), max int) *outbox {
	o := &outbox{start: start, max: max, space: make(chan struct{}, 1)}
	o.streams = &streams{out: o, byRoom: make(map[string]*stream)}
	return o
}

// waitForSpace waits while too many bytes of frames are queued or being written. A single
// frame may be longer than the limit.
func (o *outbox) waitForSpace() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.queued.frames+o.inFlight.frames >= o.max && !o.finished {
		o.startLocked()
		o.mu.Unlock()
		<-o.space
		o.mu.Lock()
	}
}

// push queues a frame for a caller that has waited for space, and then writes what is
// queued: it starts no writer.
func (o *outbox) push(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pushLocked(frame)
}

// ping queues a frame that answers nothing, and starts a writer for it. It reports false
// once the outbox is finished.
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

func (o *outbox) pushLocked(frame []byte) {
	o.queued.frames += itemSize + cap(frame)
	o.items = append(o.items, item{frame: frame})
}

// enqueueLocked gives a stream its place, and starts a writer for it.
func (o *outbox) enqueueLocked(s *stream) {
	if s.held || s.isParked() || s.queued || len(s.pending) == 0 {
		return
	}
	s.queued = true
	o.items = append(o.items, item{stream: s})
	o.startLocked()
}

func (o *outbox) dequeueLocked(s *stream) {
	if s.queued {
		o.items = slices.DeleteFunc(o.items, func(i item) bool { return i.stream == s })
		s.queued = false
	}
}

// startLocked starts a writer, unless there is one.
func (o *outbox) startLocked() {
	if o.claimLocked() {
		o.start()
	}
}

// claim makes the caller the writer. It reports false if there is one, or nothing to write.
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

// keepWriting reports whether the writer has to go on. Once the outbox is finished it has
// not: the connection's goroutine writes the rest.
func (o *outbox) keepWriting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = len(o.items) > 0 && !o.finished
	return o.writing
}

// next removes and returns what is to be written next: a frame, or the events of one room
// that are not written yet. It returns neither if there is nothing.
func (o *outbox) next() (frame []byte, events []*room.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.items) > 0 {
		i := o.items[0]
		o.items = slices.Delete(o.items, 0, 1)
		if i.stream == nil {
			size := itemSize + cap(i.frame)
			o.queued.frames -= size
			o.inFlight.frames += size
			return i.frame, nil
		}
		if events = o.nextEventsLocked(i.stream); events != nil {
			return nil, events
		}
	}
	return nil, nil
}

// nextEventsLocked removes and returns a stream's pending events. It returns none if the stream
// is held or parked.
func (o *outbox) nextEventsLocked(s *stream) []*room.Event {
	s.queued = false
	if s.held || s.isParked() {
		return nil
	}
	events := s.pending
	s.sentLocked()
	o.inFlight.changes += s.size
	s.clearLocked(o)
	return events
}

// isFullLocked reports whether too many bytes of changes wait for the client.
func (o *outbox) isFullLocked() bool { return o.queued.changes+o.inFlight.changes > o.max }

// written says that what next returned is written.
func (o *outbox) written() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight = load{}
	signal(o.space)
}

// finish queues a last frame, or none if last is nil. No writer starts any more.
func (o *outbox) finish(last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	if last != nil && !o.broken {
		o.pushLocked(last)
	}
	signal(o.space)
}

// discard drops all that is queued, because nothing can be written any more.
func (o *outbox) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished, o.broken, o.items, o.queued.frames = true, true, nil, 0
	signal(o.space)
}

// isEmpty reports whether nothing is to be written.
func (o *outbox) isEmpty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.items) == 0
}

func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
