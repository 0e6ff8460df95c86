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
	start func()    // set by OnDemand
	max   int       // bytes of frames before requests wait, and of changes before a snapshot replaces them
	space sync.Cond // on Mu; signals that a write has ended, or the outbox is finished

	// Mu guards the fields below, the queues of rooms, and the state of the session that fills them. So a session's
	// membership in a room and the events that its client gets change in one step.
	Mu sync.Mutex

	rooms    map[*Room]struct{} // not ended
	items    []item
	queued   load          // bytes in items and rooms
	inFlight load          // bytes being written
	writing  bool          // a writer runs, until KeepWriting reports false
	finished bool          // nothing more is queued
	broken   bool          // nothing more can be written
	taken    []*room.Event // the last result of Next
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

// New returns an empty outbox. max bounds the bytes of its frames, and those of its changes.
func New(max int) *Outbox {
	o := &Outbox{start: func() {}, max: max, rooms: make(map[*Room]struct{})}
	o.space.L = &o.Mu
	return o
}

// OnDemand sets the function that starts a writer when one is needed. start must not block.
func (o *Outbox) OnDemand(start func()) { o.start = start }

// WaitForSpace waits until less than max bytes of frames are queued or being written, or the outbox is finished.
func (o *Outbox) WaitForSpace() {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	for o.queued.frames+o.inFlight.frames >= o.max && !o.finished {
		o.startLocked()
		o.space.Wait()
	}
}

// Push queues a frame and starts no writer: the caller has waited for space, and writes the queue next.
func (o *Outbox) Push(frame []byte) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	o.PushLocked(frame)
}

// PushLocked is Push with Mu locked.
func (o *Outbox) PushLocked(frame []byte) {
	o.queued.frames += itemSize + cap(frame)
	o.items = append(o.items, item{frame: frame})
}

// Ping queues a frame that is no reply, and starts a writer. It reports false once the outbox is finished.
func (o *Outbox) Ping(frame []byte) bool {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	if o.finished {
		return false
	}
	o.PushLocked(frame)
	o.startLocked()
	return true
}

func (o *Outbox) startLocked() {
	if o.claimLocked() {
		o.start()
	}
}

// Claim makes the caller the writer. It reports false if a writer runs, nothing is queued, or the outbox is finished.
func (o *Outbox) Claim() bool {
	o.Mu.Lock()
	defer o.Mu.Unlock()
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
	o.Mu.Lock()
	defer o.Mu.Unlock()
	o.writing = len(o.items) > 0 && !o.finished
	return o.writing
}

// Next removes and returns the next frame, or the pending events of one room; neither if nothing can be written now.
// The events are valid until the next call of Next or Written.
func (o *Outbox) Next() (frame []byte, events []*room.Event) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
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
			i.events, i.size = i.room.take()
		}
		if len(i.events) > 0 {
			o.queued.changes -= i.size
			o.inFlight.changes += i.size
			return nil, i.events
		}
	}
	return nil, nil
}

// boundLocked drops events, those of the largest queue first, until the others fit. It reports false if it drops events
// of a queue that has missed none so far.
func (o *Outbox) boundLocked() (fits bool) {
	fits = true
	for o.queued.changes+o.inFlight.changes > o.max {
		var largest *Room
		for r := range o.rooms {
			if r.size > 0 && (largest == nil || r.size > largest.size) {
				largest = r
			}
		}
		if largest == nil {
			break
		}
		fits = fits && largest.Missed != nil // if it is set, a drop was reported before
		largest.drop()
	}
	return fits
}

// Kept returns how many bytes the outbox holds, without snapshots.
func (o *Outbox) Kept() int {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	return o.queued.frames + o.inFlight.frames + o.queued.changes + o.inFlight.changes
}

// Written records that the results of Next are written.
func (o *Outbox) Written() {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	o.inFlight, o.taken = load{}, emptied(o.taken)
	o.space.Signal()
}

// Finish queues a last frame, unless that is nil or nothing can be written any more. No writer starts after it.
func (o *Outbox) Finish(last []byte) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	o.finished = true
	if last != nil && !o.broken {
		o.PushLocked(last)
	}
	o.space.Signal()
}

// Cut replaces the queue by rest, the end of a frame that the client has in part. If rest is nil, nothing can be
// written any more; otherwise only rest, and the last frame of Finish.
func (o *Outbox) Cut(rest []byte) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	o.finished, o.broken, o.items, o.queued.frames = true, o.broken || rest == nil, nil, 0
	if rest != nil {
		o.PushLocked(rest)
	}
	o.space.Signal()
}

// IsWriting reports whether a writer runs.
func (o *Outbox) IsWriting() bool {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	return o.writing
}

// take removes and returns the pending events, with their size in bytes. It returns none while they have to wait. If
// events were dropped, it returns none either, and has a snapshot read.
func (r *Room) take() (events []*room.Event, size int) {
	r.queued = false
	switch {
	case r.held || r.paused:
		return nil, 0
	case r.Missed != nil:
		if !r.filling {
			r.filling = true
			r.stale()
		}
		return nil, 0
	}
	events, size = append(r.out.taken[:0], r.pending...), r.size
	r.out.taken, r.sent = events, r.at
	r.pending, r.size = emptied(r.pending), 0
	return events, size
}

// enqueue gives the queue a position as place does. If it gets one, enqueue starts a writer.
func (r *Room) enqueue() {
	if r.place() {
		r.out.startLocked()
	}
}

// place gives the queue a position, unless it has one, has to wait, or has nothing to write or refill.
func (r *Room) place() (placed bool) {
	if r.held || r.paused || r.queued || r.filling && r.Missed != nil || len(r.pending) == 0 && r.Missed == nil {
		return false
	}
	r.queued = true
	r.out.items = append(r.out.items, item{room: r})
	return true
}

func (r *Room) dequeue() {
	if r.queued {
		r.out.items = slices.DeleteFunc(r.out.items, func(i item) bool { return i.room == r })
		r.queued = false
	}
}

// seal moves the first n pending events to the end of the outbox, before all that is queued later.
func (r *Room) seal(n int) {
	r.dequeue()
	if n == 0 {
		return
	}
	size := r.sizeOf(r.pending[:n])
	r.out.items = append(r.out.items, item{events: r.pending[:n:n], size: size})
	r.sent = positionOf(r.pending[n-1])
	r.pending, r.size = r.pending[n:], r.size-size
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
