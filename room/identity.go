package room

import (
	"maps"
	"slices"
	"sync"
)

// identity is a name under which a node writes.
type identity struct {
	node  string
	by    string // the field of a room's Meta that remembers the node's last commit
	rooms roomSet
}

func newIdentity(node string) *identity { return &identity{node: node, by: "by:" + node} }

// roomSet is what Node:<node>:Rooms has to hold, by what its node has put in. A
// failover may lose some of that and still keep the members, which are on another
// master of a Cluster; then the node puts it in again. The zero value is empty.
type roomSet struct {
	mu  sync.Mutex
	ids map[string]struct{} // guarded by mu
}

func (s *roomSet) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = make(map[string]struct{})
	}
	s.ids[id] = struct{}{}
}

// remove reports whether the room was there.
func (s *roomSet) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.ids[id]
	delete(s.ids, id)
	return there
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
