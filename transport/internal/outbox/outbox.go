// Package outbox queues the output of a connection in the order in which its client must see it: frames (replies,
// pings and the like), and a queue of events for each room, with the replies in their places. It bounds the waiting
// bytes, and keeps events back during requests and recoveries.
//
// A slow reader gets a snapshot of a room in place of the events that do not fit. They are dropped, the largest queue
// first, and that queue goes to the end of the outbox. When the writer gets there, the client has read all before it;
// only then the room is read, once for all clients that missed some of it. So a client that reads always makes
// progress, and the server keeps at most one snapshot of each room for it.
package outbox

import (
	"slices"
	"sync"

	"roomd/room"
)

// itemSize is roughly the memory of an item beside its bytes.
const itemSize = 64

// Outbox is the queue of one connection. It is safe for concurrent use; there is one writer at a time.
type Outbox struct {
	start func()        // starts a writer; it does not block
	max   int           // bytes of frames before requests wait, and of changes before a snapshot replaces them
	space chan struct{} // receives after a write

	mu       sync.Mutex
	rooms    map[*Room]struct{} // guarded by mu: not ended
	items    []item             // guarded by mu
	queued   load               // guarded by mu: bytes in items and rooms
	inFlight load               // guarded by mu: bytes being written
	writing  bool               // guarded by mu: a writer runs, until KeepWriting reports false
	finished bool               // guarded by mu: nothing more is queued
	broken   bool               // guarded by mu: nothing more can be written
	taken    []*room.Event      // guarded by mu: the last result of Next
	stale    []*Room            // guarded by mu: rooms whose snapshots are due, in order
}

// item is a frame, some events of a room, or the position of a room's queue.
type item struct {
	frame  []byte
	events []*room.Event
	size   int // of events
	room   *Room
}

// load counts bytes, except snapshots: there is one of each room at most, and all waiting connections share it.
type load struct{ frames, changes int }

// New returns an outbox that calls start when a writer is needed.
func New(start func(), max int) *Outbox {
	return &Outbox{start: start, max: max, space: make(chan struct{}, 1), rooms: make(map[*Room]struct{})}
}

// WaitForSpace waits while too many bytes of frames are queued or being written. A single frame may exceed the limit.
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

// Push queues a frame and starts no writer: the caller has waited for space, and writes the queue next.
func (o *Outbox) Push(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pushLocked(frame)
}

// Ping queues a frame that is no reply, and starts a writer. It reports false once the outbox is finished.
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

// enqueueLocked gives a room's queue a position, and starts a writer.
func (o *Outbox) enqueueLocked(r *Room) {
	if o.placeLocked(r) {
		o.startLocked()
	}
}

// placeLocked gives a room's queue a position, if it has something to write and no position yet.
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

// Start starts a writer, unless one runs, or nothing is queued.
func (o *Outbox) Start() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.startLocked()
}

func (o *Outbox) startLocked() {
	if o.claimLocked() {
		o.start()
	}
}

// Claim makes the caller the writer. It reports false if a writer runs, or nothing is queued.
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

// KeepWriting reports whether the writer goes on. In a finished outbox the connection's goroutine writes the rest.
func (o *Outbox) KeepWriting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = len(o.items) > 0 && !o.finished
	return o.writing
}

// Next removes and returns the next frame, or the pending events of one room; neither if nothing is queued. The
// events are valid until the next call, and until Written.
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

// TakeStale returns the rooms whose snapshots are due: all before them has been written. Refill each of them once.
func (o *Outbox) TakeStale() (rooms []*Room) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rooms, o.stale = o.stale, nil
	return rooms
}

func (o *Outbox) largestLocked() (largest *Room) {
	for r := range o.rooms {
		if r.size > 0 && (largest == nil || r.size > largest.size) {
			largest = r
		}
	}
	return largest
}

func (o *Outbox) isFullLocked() bool { return o.queued.changes+o.inFlight.changes > o.max }

// Kept returns how many bytes the outbox holds, without snapshots.
func (o *Outbox) Kept() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued.frames + o.inFlight.frames + o.queued.changes + o.inFlight.changes
}

// Written records that the results of Next are written.
func (o *Outbox) Written() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight, o.taken = load{}, emptied(o.taken)
	signal(o.space)
}

// Finish queues a last frame, or none if last is nil. No writer starts after it.
func (o *Outbox) Finish(last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	if last != nil && !o.broken {
		o.pushLocked(last)
	}
	signal(o.space)
}

// Cut empties the queue except rest, the rest of a frame that the client has in part. If rest is nil, nothing can be
// written any more; otherwise only rest, and the last frame of Finish.
func (o *Outbox) Cut(rest []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished, o.broken, o.items, o.queued.frames = true, o.broken || rest == nil, nil, 0
	if rest != nil {
		o.pushLocked(rest)
	}
	signal(o.space)
}

// IsWriting reports whether a writer runs.
func (o *Outbox) IsWriting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writing
}

// maxKept is the capacity up to which a slice of events is reused.
const maxKept = 16

// emptied empties a slice for reuse, or returns nil if it is large.
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
