package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"roomd/room"
)

const (
	// maxShadowHeld is how many events may come while a room is read.
	maxShadowHeld = 1024

	// shadowLag is how long a check waits for the event of a version that Redis has.
	shadowLag = 100 * time.Millisecond
)

// shadow is a room as this node has built it from the events that its watchers got. It is compared
// with the room in Redis.
type shadow struct {
	feed *feed
	w    *watch
	size int           // used only by invariants.loop: what it counts for
	news chan struct{} // an event has come

	mu      sync.Mutex
	room    *room.Room    // guarded by mu; nil: not known
	holding bool          // guarded by mu: events wait in held
	held    []*room.Event // guarded by mu
	resets  int           // guarded by mu: how often the room became unknown
	gap     string        // guarded by mu: what was missing between two events since the last check
}

// shadow returns a shadow of a room that is watched here, or nil if it is not. Nothing stays watched
// for its sake.
func (fs *feeds) shadow(id string) *shadow {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.rooms[id]
	if f == nil {
		return nil
	}
	s := &shadow{feed: f, news: make(chan struct{}, 1)}
	s.w = &watch{fn: s.put, aside: true}
	f.add(s.w)
	return s
}

func (s *shadow) stop() { s.feed.remove(s.w) }

// put takes an event, in order.
func (s *shadow) put(e *room.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Rejoin:
		return
	case e.Snapshot != nil || len(s.held) == maxShadowHeld:
		s.forgetLocked()
	case s.holding:
		s.held = append(s.held, e)
	default:
		s.followLocked(e)
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *shadow) forgetLocked() {
	s.room, s.held = nil, nil
	s.resets++
}

func (s *shadow) followLocked(e *room.Event) {
	if s.room == nil || s.room.Follow(e) {
		return
	}
	if e.Epoch == s.room.Epoch {
		s.gap = fmt.Sprintf("the event of version %d came after that of version %d", e.Version, s.room.Version)
	}
	s.forgetLocked()
}

// hold has events wait until release, so that the shadow can be brought to the version that is read
// meanwhile. It returns a number for adopt.
func (s *shadow) hold() (resets int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = true
	return s.resets
}

// release has events count again.
func (s *shadow) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held
	s.holding, s.held = false, nil
	for _, e := range held {
		s.followLocked(e)
	}
}

// adopt makes a room that was read after hold the shadow, unless it became unknown again since.
func (s *shadow) adopt(r *room.Room, resets int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resets == resets {
		s.room = r
	}
}

// meet brings the shadow to the version of a room that was read after hold, and says how they
// compare: the order of is behind what the shadow is at, and the differences if both are at one
// version. known is false if the shadow knows nothing.
func (s *shadow) meet(ctx context.Context, is *room.Room) (at room.Position, order room.Order, differences string, known bool) {
	end := time.NewTimer(shadowLag)
	defer end.Stop()
	for {
		at, order, differences, known = s.compare(is)
		if !known || order != room.Later {
			return at, order, differences, known
		}
		select {
		case <-s.news:
		case <-end.C:
			return at, order, differences, known
		case <-ctx.Done():
			return at, order, differences, known
		}
	}
}

// compare is meet as far as events have come.
func (s *shadow) compare(is *room.Room) (at room.Position, order room.Order, differences string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.held) > 0 && s.room != nil && s.room.Position.Compare(is.Position) == room.Later {
		e := s.held[0]
		s.held = s.held[1:]
		s.followLocked(e)
	}
	if s.room == nil {
		return at, order, "", false
	}
	if order = s.room.Position.Compare(is.Position); order == room.Same {
		differences = s.room.Differences(is)
	}
	return s.room.Position, order, differences, true
}

// missed returns what was missing between two events since it was last asked.
func (s *shadow) missed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	gap := s.gap
	s.gap = ""
	return gap
}

func (s *shadow) isEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room == nil || s.room.Count() == 0
}

func (s *shadow) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked()
}
