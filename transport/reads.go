package transport

import (
	"context"
	"errors"
	"sync"

	"roomd/room"
)

// sharedReads has those who read one room at the same time read it together: however many
// ask for a long list, and however often, Redis sends it once at a time, and it is encoded
// once. A read begins after it was asked for: one that comes while another runs does not
// share that, but the next.
type sharedReads struct {
	Rooms

	mu    sync.Mutex
	reads map[string]*pairOfReads // guarded by mu: of rooms that are read
}

// pairOfReads are the read of a room that runs, and the one that follows it; nil if
// nobody waits for that.
type pairOfReads struct{ running, next *read }

type read struct {
	done     chan struct{}
	snapshot room.Snapshot // written before done is closed
	err      error         // written before done is closed
}

var errReadFailed = errors.New("the read that this one shared has failed")

func newSharedReads(rooms Rooms) *sharedReads {
	return &sharedReads{Rooms: rooms, reads: make(map[string]*pairOfReads)}
}

// Read reads a room. The reads that it shares end with the ctx of whoever came first.
func (s *sharedReads) Read(ctx context.Context, id string) (room.Snapshot, error) {
	s.mu.Lock()
	pair := s.reads[id]
	if pair == nil {
		r := newRead()
		s.reads[id] = &pairOfReads{running: r}
		s.mu.Unlock()
		s.run(ctx, id, r)
		return r.snapshot, r.err
	}
	before, r := pair.running, pair.next
	first := r == nil
	if first {
		r = newRead()
		pair.next = r
	}
	s.mu.Unlock()
	if first {
		<-before.done
		s.run(ctx, id, r)
	}
	<-r.done
	return r.snapshot, r.err
}

func newRead() *read { return &read{done: make(chan struct{}), err: errReadFailed} }

// run reads, and then lets the next one begin.
func (s *sharedReads) run(ctx context.Context, id string, r *read) {
	defer func() { // also after a panic
		s.mu.Lock()
		defer s.mu.Unlock()
		pair := s.reads[id]
		if pair.running, pair.next = pair.next, nil; pair.running == nil {
			delete(s.reads, id)
		}
		close(r.done)
	}()
	r.snapshot, r.err = s.Rooms.Read(ctx, id)
}
