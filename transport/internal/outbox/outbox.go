// Package outbox is what a connection has yet to write, in the order in which its client has to see it: frames
// (replies, pings and the like), and for each room one queue of events, in which replies have their place. It
// bounds how many bytes wait, and keeps events back while a request runs or the session may have lost its seat.
//
// A client that reads slowly gets a room as it is, in place of the events that its queue cannot hold.
// They are dropped, the largest queue first, and the queue takes its place in the outbox again. When
// the writer gets there, the client has read what came before: only then the room is read, once for
// all clients that have missed something of it. So a client that reads always gets on, by snapshot
// after snapshot if need be, and the server keeps no more than one of each room for it.
package outbox

import (
	"slices"
	"sync"

	"roomd/room"
)

// itemSize is about what an item takes beside its bytes.
const itemSize = 64

// Outbox is that of one connection. It is safe for concurrent use; there is one writer at a time.
type Outbox struct {
	start func()        // starts a writer; it does not block
	max   int           // bytes of frames before requests wait, and of changes before a snapshot takes their place
	space chan struct{} // receives when something was written

	mu       sync.Mutex
	rooms    map[*Room]struct{} // guarded by mu: those that have not ended
	items    []item             // guarded by mu
	queued   load               // guarded by mu: in items and rooms
	inFlight load               // guarded by mu: being written
	writing  bool               // guarded by mu: there is a writer, until KeepWriting says no
	finished bool               // guarded by mu: nothing is queued any more
	broken   bool               // guarded by mu: nothing can be written any more
	taken    []*room.Event      // guarded by mu: what Next has returned last
	stale    []*Room            // guarded by mu: of which the client is to get a snapshot, in the order of their places
}

// item is a frame, some events of a room, or the place of a room's queue.
type item struct {
	frame  []byte
	events []*room.Event
	size   int // of events
	room   *Room
}

// load is how many bytes an outbox keeps. Snapshots do not count: of each room there is one
// at most, and all connections that wait for it share it.
type load struct{ frames, changes int }

// New returns an outbox that calls start when a writer is needed.
func New(start func(), max int) *Outbox {
	return &Outbox{start: start, max: max, space: make(chan struct{}, 1), rooms: make(map[*Room]struct{})}
}

// WaitForSpace waits while too many bytes of frames are queued or being written. A single
// frame may be longer than the limit.
func (o *Outbox) WaitForSpace() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.queued.frames+o.inFlight.frames >= o.max && !o.finished {
		o.startLocked()
		o.mu.Unlock()
		<-o.space
		o.mu.Lock()
	}
}

// Push queues a frame for a caller that has waited for space, and then writes what is queued: it starts no writer.
func (o *Outbox) Push(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pushLocked(frame)
}

// Ping queues a frame that answers nothing, and starts a writer for it. It reports false once the outbox is finished.
func (o *Outbox) Ping(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finished {
		return false
	}
	o.pushLocked(frame)
	o.startLocked()
	return true
}

func (o *Outbox) pushLocked(frame []byte) {
	o.queued.frames += itemSize + cap(frame)
	o.items = append(o.items, item{frame: frame})
}

// enqueueLocked gives a room's queue its place, and starts a writer for it.
func (o *Outbox) enqueueLocked(r *Room) {
	if o.placeLocked(r) {
		o.startLocked()
	}
}

// placeLocked gives a room's queue its place, if it has something to be written and no place yet.
func (o *Outbox) placeLocked(r *Room) (placed bool) {
	if r.held || r.paused || r.queued || r.filling && r.missed != nil || len(r.pending) == 0 && r.missed == nil {
		return false
	}
	r.queued = true
	o.items = append(o.items, item{room: r})
	return true
}

func (o *Outbox) dequeueLocked(r *Room) {
	if r.queued {
		o.items = slices.DeleteFunc(o.items, func(i item) bool { return i.room == r })
		r.queued = false
	}
}

// Start starts a writer, unless there is one, or nothing to write.
func (o *Outbox) Start() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.startLocked()
}

// startLocked is Start.
func (o *Outbox) startLocked() {
	if o.claimLocked() {
		o.start()
	}
}

// Claim makes the caller the writer. It reports false if there is one, or nothing to write.
func (o *Outbox) Claim() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claimLocked()
}

func (o *Outbox) claimLocked() bool {
	if o.writing || o.finished || len(o.items) == 0 {
		return false
	}
	o.writing = true
	return true
}

// KeepWriting reports whether the writer has to go on. Once the outbox is finished it has
// not: the connection's goroutine writes the rest.
func (o *Outbox) KeepWriting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = len(o.items) > 0 && !o.finished
	return o.writing
}

// Next removes and returns what is to be written next: a frame, or the events of one room that are not written yet.
// It returns neither if there is nothing. The events are valid until the next call, and until Written.
func (o *Outbox) Next() (frame []byte, events []*room.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.items) > 0 {
		i := o.items[0]
		o.items = slices.Delete(o.items, 0, 1)
		switch {
		case i.frame != nil:
			size := itemSize + cap(i.frame)
			o.queued.frames -= size
			o.inFlight.frames += size
			return i.frame, nil
		case i.room != nil:
			i.events, i.size = i.room.takeLocked(o)
		}
		if len(i.events) > 0 {
			o.queued.changes -= i.size
			o.inFlight.changes += i.size
			return nil, i.events
		}
	}
	return nil, nil
}

// TakeStale returns the rooms of which the client has to get a snapshot now: all that comes before
// it has been written. Each of them has to be refilled, once.
func (o *Outbox) TakeStale() (rooms []*Room) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rooms, o.stale = o.stale, nil
	return rooms
}

// largestLocked returns the room of whose changes most bytes are pending, nil if there are none.
func (o *Outbox) largestLocked() (largest *Room) {
	for r := range o.rooms {
		if r.size > 0 && (largest == nil || r.size > largest.size) {
			largest = r
		}
	}
	return largest
}

// isFullLocked reports whether too many bytes of changes wait for the client.
func (o *Outbox) isFullLocked() bool { return o.queued.changes+o.inFlight.changes > o.max }

// Kept returns how many bytes the outbox keeps, without snapshots.
func (o *Outbox) Kept() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued.frames + o.inFlight.frames + o.queued.changes + o.inFlight.changes
}

// Written says that what Next returned is written.
func (o *Outbox) Written() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight, o.taken = load{}, emptied(o.taken)
	signal(o.space)
}

// Finish queues a last frame, or none if last is nil. No writer starts any more.
func (o *Outbox) Finish(last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	if last != nil && !o.broken {
		o.pushLocked(last)
	}
	signal(o.space)
}

// Cut drops all that is queued, except the rest of a frame of which the client has a part. If rest is nil nothing can
// be written any more; otherwise only that, and what Finish adds.
func (o *Outbox) Cut(rest []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished, o.broken, o.items, o.queued.frames = true, o.broken || rest == nil, nil, 0
	if rest != nil {
		o.pushLocked(rest)
	}
	signal(o.space)
}

// IsWriting reports whether there is a writer.
func (o *Outbox) IsWriting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writing
}

// maxKept is how many events a slice may have had room for that is used again.
const maxKept = 16

// emptied returns a slice for other events, which is events if that is not large.
func emptied(events []*room.Event) []*room.Event {
	if cap(events) > maxKept {
		return nil
	}
	clear(events)
	return events[:0]
}

func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
