// Package pending keeps the connections that have not earned their slots: they are not WebSockets yet, or have shown
// no token. It chooses the connection to evict when slots are few.
package pending

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// Set holds connections without an earned slot, by address. Next is the oldest of the address with the most, so one
// address cannot keep the others out. The zero value is empty. A Set is not safe for concurrent use.
type Set[T any] struct {
	addresses map[netip.Prefix]*address[T]
	most      byCount[T]
	added     uint64 // entries ever added
	count     int
}

// Entry is a member of a Set.
type Entry[T any] struct {
	value T
	age   uint64        // the lower, the older
	of    *address[T]   // nil outside a Set
	place *list.Element // in of.entries
}

type address[T any] struct {
	network netip.Prefix
	entries list.List // of *Entry[T], oldest first; not empty in a Set
	index   int       // in byCount
}

func entryOf[T any](place *list.Element) *Entry[T] { return place.Value.(*Entry[T]) }

func (a *address[T]) oldest() *Entry[T] { return entryOf[T](a.entries.Front()) }

// Network returns the prefix that counts as one address: 64 bits of IPv6 have one owner. Zero for the zero Addr.
func Network(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits)
	return network
}

// Add adds a connection, as the youngest of its address.
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

// Move corrects the address of a connection. Its age stays.
func (s *Set[T]) Move(e *Entry[T], network netip.Prefix) {
	if e.of != nil && e.of.network != network {
		s.Remove(e)
		s.enter(network, e)
	}
}

// Remove removes a connection that has ended or has earned its slot. It may be called again.
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

// Next returns the connection to evict: the oldest of the address with the most; of addresses with equally many, the
// one whose oldest is older. It reports false if the Set is empty.
func (s *Set[T]) Next() (value T, ok bool) {
	if s.count == 0 {
		return value, false
	}
	return s.most[0].oldest().value, true
}

// Len returns the number of connections.
func (s *Set[T]) Len() int { return s.count }

// byCount is a heap with the address of Next on top.
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
