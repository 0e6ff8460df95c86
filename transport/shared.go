package transport

import (
	"sync"

	"roomd/room"
)

// shared is what is made of an event once for all who are told, each when it is
// first asked for.
type shared struct {
	event *room.Event
	size  int // bytes of its changes, about

	encode sync.Once
	bytes  []byte // written once, by encode
}

func sharedBy(e *room.Event) *shared {
	return e.Shared(func() any { return &shared{event: e, size: changesSize(e)} }).(*shared)
}

// frame returns the event's frame.
func (s *shared) frame() []byte {
	s.encode.Do(func() {
		if s.event.Snapshot != nil {
			s.bytes = snapshotFrame(s.event)
		} else {
			s.bytes = changesFrame(s.event)
		}
	})
	return s.bytes
}
