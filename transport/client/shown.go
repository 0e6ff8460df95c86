package client

import (
	"context"

	"roomd/transport/protocol"
)

// shown is a version for which somebody waits.
type shown struct {
	epoch   string
	version uint64
	done    chan struct{} // closed when the room is at that version, or further, or in another epoch
}

// awaitShown waits until the room shows what a request has done, or ctx ends. The reply may come
// before the event.
func (r *Room) awaitShown(ctx context.Context, reply *protocol.Reply) {
	s := &shown{reply.Epoch, reply.Version, make(chan struct{})}
	r.rooms.mu.Lock()
	if v := &r.replica.view; v.Epoch == s.epoch && v.Version < s.version && r.err == nil {
		r.awaited = append(r.awaited, s)
	} else {
		close(s.done)
	}
	r.rooms.mu.Unlock()
	select {
	case <-s.done:
	case <-ctx.Done():
	}
}

// showLocked wakes those who wait for what the room shows now.
func (r *Room) showLocked() {
	v := &r.replica.view
	waiting := r.awaited[:0]
	for _, s := range r.awaited {
		if v.Epoch == s.epoch && v.Version < s.version && r.err == nil {
			waiting = append(waiting, s)
		} else {
			close(s.done)
		}
	}
	clear(r.awaited[len(waiting):])
	r.awaited = waiting
}
