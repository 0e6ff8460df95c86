package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"roomd/room"
	"roomd/room/coordinator"
)

// Rooms has the methods of a *coordinator.Coordinator that sessions call.
type Rooms interface {
	Do(ctx context.Context, id string, a room.Action) (room.Result, error)
	Read(ctx context.Context, id string) (room.Snapshot, error)
	Kept(ctx context.Context, id string, most int) (room.Kept, error)
	Match(ctx context.Context, w coordinator.Wanted,
		join func(ctx context.Context, id string, begin *room.Settings) (room.Result, error)) error
	Watch(ctx context.Context, id string, fn func(*room.Event)) (stop func(), err error)
}

// SharedReads merges concurrent reads of a room: one at a time runs, for any number of clients, and its list is
// encoded once. Read shares no read that began before the call: it waits for the next one.
type SharedReads struct {
	Rooms
	life context.Context // of reads

	mu     sync.Mutex
	reads  map[string]*roomReads    // guarded by mu: rooms that are being read
	recent map[string]room.Snapshot // guarded by mu: by room, the last result of readSince within recentTime
}

// recentTime is how long the result of readSince is shared.
const recentTime = time.Second

// roomReads are the running read of a room, and the next one; next is nil if nobody waits for it.
type roomReads struct{ running, next *read }

type read struct {
	done     chan struct{}
	snapshot room.Snapshot // written before done is closed
	err      error         // written before done is closed
}

var errReadFailed = errors.New("the shared read has failed")

// NewSharedReads returns rooms whose reads end with life.
func NewSharedReads(life context.Context, rooms Rooms) *SharedReads {
	return &SharedReads{
		Rooms: rooms, life: life, reads: make(map[string]*roomReads), recent: make(map[string]room.Snapshot),
	}
}

// Read reads a room. Other callers share the read, so ctx does not interrupt it: a caller whose ctx has ended gets
// the cause of ctx afterwards. It fails as Rooms.Read, and with [room.ErrClosed] once life has ended.
func (s *SharedReads) Read(ctx context.Context, id string) (room.Snapshot, error) {
	r := s.shared(id)
	switch {
	case s.life.Err() != nil:
		return room.Snapshot{}, room.ErrClosed
	case ctx.Err() != nil:
		return room.Snapshot{}, context.Cause(ctx)
	}
	return r.snapshot, r.err
}

// shared waits for a read that began after the call, and returns it.
func (s *SharedReads) shared(id string) *read {
	s.mu.Lock()
	pair := s.reads[id]
	if pair == nil {
		r := newRead()
		s.reads[id] = &roomReads{running: r}
		s.mu.Unlock()
		s.run(id, r)
		return r
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
		s.run(id, r)
	}
	<-r.done
	return r
}

// readSince reads a room for a client that has missed events up to a position. It shares any read that shows them,
// even a running or recent one: one read serves all clients that missed them. It fails as Read does.
func (s *SharedReads) readSince(ctx context.Context, id string, missed room.Position) (room.Snapshot, error) {
	s.mu.Lock()
	recent := s.recent[id]
	var running *read
	if pair := s.reads[id]; pair != nil {
		running = pair.running
	}
	s.mu.Unlock()
	if shows(recent, missed) {
		return recent, nil
	}
	if running != nil {
		<-running.done
		if running.err == nil && shows(running.snapshot, missed) {
			return running.snapshot, nil
		}
	}
	snapshot, err := s.Read(ctx, id)
	if err == nil {
		s.keep(id, snapshot)
	}
	return snapshot, err
}

// shows reports whether a snapshot is at a position or later.
func shows(s room.Snapshot, at room.Position) bool {
	return s.Epoch == at.Epoch && s.Version >= at.Version
}

func (s *SharedReads) keep(id string, snapshot room.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, kept := s.recent[id]; !kept {
		time.AfterFunc(recentTime, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.recent, id)
		})
	}
	s.recent[id] = snapshot
}

func newRead() *read { return &read{done: make(chan struct{}), err: errReadFailed} }

// run reads, and then lets the next read start.
func (s *SharedReads) run(id string, r *read) {
	defer func() { // also after a panic
		s.mu.Lock()
		defer s.mu.Unlock()
		pair := s.reads[id]
		if pair.running, pair.next = pair.next, nil; pair.running == nil {
			delete(s.reads, id)
		}
		close(r.done)
	}()
	r.snapshot, r.err = s.Rooms.Read(s.life, id)
}
