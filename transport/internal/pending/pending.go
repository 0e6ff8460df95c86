// Package pending holds what has a place for now and has not earned it: connections that are not
// WebSockets yet, or have shown no token. It chooses which of them goes when places are few.
package pending

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// Set is such connections, by address. Who opens most of them makes room for everybody else: Next
// is the oldest of the address that has most, so one address cannot keep the others out. The zero
// value is empty. A Set is not safe for concurrent use.
type Set[T any] struct {
	addresses map[netip.Prefix]*address[T]
	most      byCount[T]
	added     uint64 // entries so far
	count     int
}

// Entry is a member of a Set.
type Entry[T any] struct {
	value T
	age   uint64        // lower is older
	of    *address[T]   // nil when it is in no Set
	place *list.Element // in of.entries
}

// address is the entries of one address.
type address[T any] struct {
	network netip.Prefix
	entries list.List // of *Entry[T], oldest first; not empty while it is in a Set
	index   int       // in byCount
}

func entryOf[T any](place *list.Element) *Entry[T] { return place.Value.(*Entry[T]) }

// oldest returns the entry that goes first.
func (a *address[T]) oldest() *Entry[T] { return entryOf[T](a.entries.Front()) }

// Network returns what counts as one address: of IPv6 the first 64 bits, because whoever has one
// address there has all of them. It is the zero Prefix for the zero Addr.
func Network(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits)
	return network
}

// Add adds a connection of an address.
func (s *Set[T]) Add(network netip.Prefix, value T) *Entry[T] {
	s.added++
	e := &Entry[T]{value: value, age: s.added}
	s.enter(network, e)
	return e
}

func (s *Set[T]) enter(network netip.Prefix, e *Entry[T]) {
	of := s.addresses[network]
	if of == nil {
		if s.addresses == nil {
			s.addresses = make(map[netip.Prefix]*address[T])
		}
		of = &address[T]{network: network}
		s.addresses[network] = of
	}
	e.of = of
	e.place = of.entries.PushBack(e)
	for before := e.place.Prev(); before != nil && entryOf[T](before).age > e.age; before = e.place.Prev() {
		of.entries.MoveBefore(e.place, before)
	}
	s.count++
	if of.entries.Len() == 1 {
		heap.Push(&s.most, of)
	} else {
		heap.Fix(&s.most, of.index)
	}
}

// Move says that a connection is of another address than was known. Its age stays.
func (s *Set[T]) Move(e *Entry[T], network netip.Prefix) {
	if e.of != nil && e.of.network != network {
		s.Remove(e)
		s.enter(network, e)
	}
}

// Remove removes a connection, because it has ended or has earned its place. It may be called again.
func (s *Set[T]) Remove(e *Entry[T]) {
	of := e.of
	if of == nil {
		return
	}
	of.entries.Remove(e.place)
	e.of, e.place = nil, nil
	s.count--
	if of.entries.Len() > 0 {
		heap.Fix(&s.most, of.index)
		return
	}
	heap.Remove(&s.most, of.index)
	delete(s.addresses, of.network)
}

// Next returns the connection that goes when places are few: of those of the address that has most, the oldest. Of
// addresses with equally many it is the one whose oldest is older. It reports false if the Set is empty.
func (s *Set[T]) Next() (value T, ok bool) {
	if s.count == 0 {
		return value, false
	}
	return s.most[0].oldest().value, true
}

// Len returns how many connections there are.
func (s *Set[T]) Len() int { return s.count }

// byCount is a heap: the address from which the next goes is on top.
type byCount[T any] []*address[T]

func (h byCount[T]) Len() int { return len(h) }

func (h byCount[T]) Less(i, j int) bool {
	if a, b := h[i].entries.Len(), h[j].entries.Len(); a != b {
		return a > b
	}
	return h[i].oldest().age < h[j].oldest().age
}

func (h byCount[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *byCount[T]) Push(x any) {
	a := x.(*address[T])
	a.index = len(*h)
	*h = append(*h, a)
}

func (h *byCount[T]) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return a
}
