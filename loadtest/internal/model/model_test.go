package model

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func rules(broken []Breach) (list []Rule) {
	for _, b := range broken {
		list = append(list, b.Rule)
	}
	return list
}

func TestSeats_Join(t *testing.T) {
	s := NewSeats()
	s.Put("a", 0)
	for _, test := range []struct {
		user string
		seat int
		want []Rule
	}{
		{"b", 1, nil}, {"b", 0, []Rule{SeatTaken}}, {"a", 0, []Rule{AlreadyIn}}, {"a", 1, []Rule{AlreadyIn}},
	} {
		if got := rules(s.Join(test.user, test.seat)); !slices.Equal(got, test.want) {
			t.Errorf("%s on seat %d breaks %v, want %v", test.user, test.seat, got, test.want)
		}
	}
	for _, test := range []struct {
		user  string
		seat  int
		want  Breach
		wrong bool
	}{{"a", 0, Breach{}, false}, {"a", 3, Breach{Rule: OtherSeat}, true}, {"b", 0, Breach{Rule: NotIn}, true}} {
		if got, wrong := s.Change(test.user, test.seat); got != test.want || wrong != test.wrong {
			t.Errorf("a change of %s on seat %d: %+v, %t", test.user, test.seat, got, wrong)
		}
	}
}

func TestSettings_Join(t *testing.T) {
	for _, test := range []struct {
		settings Settings
		seat     int
		want     []Rule
	}{
		{Settings{}, MaxSeats - 1, nil}, {Settings{}, MaxSeats, []Rule{NoSuchSeat}}, {Settings{}, -1, []Rule{NoSuchSeat}},
		{Settings{Capacity: 2}, 1, nil}, {Settings{Capacity: 2}, 2, []Rule{NoSuchSeat}}, {Settings{Closed: true}, 0, []Rule{Closed}},
	} {
		if got := rules(test.settings.Join(test.seat)); !slices.Equal(got, test.want) {
			t.Errorf("%+v, seat %d: %v, want %v", test.settings, test.seat, got, test.want)
		}
	}
	if over := (Settings{Capacity: 4}).Over(5); over != 1 {
		t.Errorf("5 members of 4: %d too many", over)
	}
	if over := (Settings{}).Over(MaxSeats); over != 0 {
		t.Errorf("as many as there are seats: %d too many", over)
	}
	if Banned(7, 0) || Banned(7, 7) || !Banned(7, 8) {
		t.Error("a ban lasts until its end, and none is none")
	}
}

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

// Where no rule is broken, both maps say the same.
func TestSeats_BothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSeats()
		for range rapid.IntRange(0, 50).Draw(t, "changes") {
			user, seat := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "user"), rapid.IntRange(0, 4).Draw(t, "seat")
			if was, there := s.Of[user]; there && rapid.Bool().Draw(t, "leaves") {
				if got, ok := s.Drop(user); !ok || got != was {
					t.Fatalf("%s left seat %d, was on %d", user, got, was)
				}
			} else if s.Join(user, seat) == nil {
				s.Put(user, seat)
			}
			if len(s.Of) != len(s.At) {
				t.Fatalf("%v, %v", s.Of, s.At)
			}
			for user, seat := range s.Of {
				if s.At[seat] != user {
					t.Fatalf("%v, %v", s.Of, s.At)
				}
			}
		}
	})
}
