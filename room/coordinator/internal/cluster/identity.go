package cluster

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Identity is a name under which a node writes, and what belongs to it.
type Identity struct {
	Node string // the name

	rooms roomSet // where it may have members

	heartbeat    atomic.Int64 // of the last request about the lease or the rooms; see lua/lease.lua
	acknowledged int64        // used by the lease's attempts: the last heartbeat that Redis has had
}

// roomSet is what Node:<node>:Rooms has to hold. A failover may lose some of that and keep
// the members, which are on another master of a Cluster; then the node writes it again. The
// zero value is empty.
type roomSet struct {
	mu  sync.Mutex
	ids map[string]struct{} // guarded by mu
}

func (s *roomSet) add(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = make(map[string]struct{})
	}
	for _, id := range ids {
		s.ids[id] = struct{}{}
	}
}

func (s *roomSet) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, id)
}

func (s *roomSet) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.ids[id]
	return there
}

func (s *roomSet) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}

func (s *roomSet) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.ids))
}
