package pending

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func network(text string) netip.Prefix { return Network(netip.MustParseAddr(text)) }

func next(t *testing.T, s *Set[string], want string) {
	t.Helper()
	if got, ok := s.Next(); got != want || ok != (want != "") {
		t.Errorf("%q goes next (%v), want %q", got, ok, want)
	}
}

// The oldest of the address that has most goes, whoever came first.
func TestWhoHasMostMakesRoom(t *testing.T) {
	var s Set[string]
	next(t, &s, "")
	s.Add(network("192.0.2.1"), "first")
	next(t, &s, "first")
	var many []*Entry[string]
	for _, name := range []string{"1", "2", "3"} {
		many = append(many, s.Add(network("192.0.2.2"), name))
	}
	s.Add(network("192.0.2.3"), "other")
	next(t, &s, "1")
	s.Remove(many[0])
	s.Remove(many[0])
	next(t, &s, "2")
	s.Remove(many[2])
	next(t, &s, "first") // all have one
	if s.Len() != 3 {
		t.Errorf("%d entries", s.Len())
	}
}

// Addresses of one IPv6 network are one, and a connection whose address becomes known later keeps its age.
func TestNetworksAndMoves(t *testing.T) {
	var s Set[string]
	s.Add(network("192.0.2.1"), "first")
	a := s.Add(network("2001:db8::1"), "a")
	b := s.Add(network("2001:db8:0:0:ffff::2"), "b")
	next(t, &s, "a")
	s.Move(a, network("2001:db8:0:1::1"))
	next(t, &s, "first")
	s.Move(b, network("192.0.2.1"))
	next(t, &s, "first")
	s.Move(a, network("192.0.2.1"))
	s.Remove(b)
	s.Move(b, network("192.0.2.9")) // it is in the set no more
	next(t, &s, "first")
	if s.Len() != 2 {
		t.Errorf("%d entries", s.Len())
	}
}

// Next is what a search of all entries finds, after any changes.
func TestNextIsTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set[int]
		type known struct {
			entry *Entry[int]
			of    netip.Prefix
		}
		var all []known // oldest first
		anyAddress := rapid.SampledFrom([]netip.Prefix{{}, network("192.0.2.1"), network("192.0.2.2"), network("2001:db8::1")})
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch do := rapid.IntRange(0, 3).Draw(t, "do"); {
			case do < 2 || len(all) == 0:
				of := anyAddress.Draw(t, "address")
				all = append(all, known{s.Add(of, i), of})
			case do == 2:
				at := rapid.IntRange(0, len(all)-1).Draw(t, "entry")
				s.Remove(all[at].entry)
				all = append(all[:at:at], all[at+1:]...)
			default:
				at := rapid.IntRange(0, len(all)-1).Draw(t, "entry")
				all[at].of = anyAddress.Draw(t, "address")
				s.Move(all[at].entry, all[at].of)
			}
			counts := make(map[netip.Prefix]int)
			for _, k := range all {
				counts[k.of]++
			}
			want := -1
			for n, k := range all {
				if want < 0 || counts[k.of] > counts[all[want].of] {
					want = n
				}
			}
			got, ok := s.Next()
			if ok != (want >= 0) || ok && got != all[want].entry.value || s.Len() != len(all) {
				t.Fatalf("next is %d (%v) of %d, want entry %d of %d", got, ok, s.Len(), want, len(all))
			}
		}
	})
}
