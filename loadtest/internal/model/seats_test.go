package model

import (
	"slices"
	"testing"
)

// Members change places within a commit: nobody is left on a seat that another one has got, or gets one that was free.
func TestSeats_Reseat(t *testing.T) {
	type move struct {
		user string
		seat int
	}
	for _, tt := range []struct {
		what    string
		moves   []move
		fit     bool
		clashes []string
	}{
		{"a swap", []move{{"a", 1}, {"b", 0}}, true, nil},
		{"three change places", []move{{"a", 1}, {"b", 2}, {"c", 0}}, true, nil},
		{"twice", []move{{"a", 1}, {"b", 0}, {"a", 0}, {"b", 1}}, true, nil},
		{"one stays", []move{{"a", 1}}, true, []string{"b"}},
		{"a free seat", []move{{"a", 3}}, false, nil},
	} {
		s, fit := NewSeats(), true
		for seat, user := range []string{"a", "b", "c"} {
			s.Put(user, seat)
		}
		for _, m := range tt.moves {
			fit = s.Reseat(m.user, m.seat) && fit
		}
		if clashes := s.Settle(); fit != tt.fit || !slices.Equal(clashes, tt.clashes) {
			t.Errorf("%s: fits %t, clashes %q", tt.what, fit, clashes)
		}
		if !fit && s.Reseat("b", 0) {
			t.Errorf("%s: the seat that was left in the commit before fits", tt.what)
		}
	}
}
