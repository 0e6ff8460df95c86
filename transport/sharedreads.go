package transport

import (
	"context"
	"errors"
	"sync"

	"roomd/room"
)

// sharedReads merges the reads of one room: however many clients ask for a long list, and
// however often, Redis sends it to this node once at a time, and it is encoded once. A caller
// never gets a read that began before its call: it shares the next one.
type sharedReads struct {
	Rooms

	mu    sync.Mutex
	reads map[string]*roomReads // guarded by mu: rooms that are being read
}

// roomReads are the read of a room that runs, and the one that follows it; next is nil if
// nobody waits for it.
type roomReads struct{ running, next *read }

type read struct {
	done     chan struct{}
	snapshot room.Snapshot // written before done is closed
	err      error         // written before done is closed
}

var errReadFailed = errors.New("the shared read has failed")

func newSharedReads(rooms Rooms) *sharedReads {
	return &sharedReads{Rooms: rooms, reads: make(map[string]*roomReads)}
}

// Read reads a room. A shared read ends with the ctx of its first caller.
func (s *sharedReads) Read(ctx context.Context, id string) (room.Snapshot, error) {
	s.mu.Lock()
	pair := s.reads[id]
	if pair == nil {
		r := newRead()
		s.reads[id] = &roomReads{running: r}
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

// Read reads a room as it is. Callers who want the same room at the same time, and the clients, share
// what Redis sends, so ctx ends nobody's wait but the caller's. It fails as the Read of Rooms does,
// and with [room.ErrClosed] after Shutdown.
func (s *Server) Read(ctx context.Context, id string) (room.Snapshot, error) {
	snapshot, err := s.rooms.Read(s.life, id)
	switch {
	case err != nil && s.life.Err() != nil:
		return snapshot, room.ErrClosed
	case ctx.Err() != nil:
		return room.Snapshot{}, context.Cause(ctx)
	}
	return snapshot, err
}

func newRead() *read { return &read{done: make(chan struct{}), err: errReadFailed} }

// run reads, and then lets the next read begin.
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
