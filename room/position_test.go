package room

import "testing"

func TestPositionsCompare(t *testing.T) {
	at := Position{"e", 5, "m"}
	for _, tt := range []struct {
		next  Position
		order Order
		lost  bool
	}{
		{Position{"e", 5, "m"}, Same, false},
		{Position{"e", 5, ""}, Same, false}, // the commit id is not known
		{Position{"e", 6, "n"}, Later, false},
		{Position{"e", 4, "l"}, Earlier, true},
		{Position{"e", 5, "n"}, Forked, true},
		{Position{"f", 9, "n"}, OtherEpoch, false},
		{Position{}, OtherEpoch, false},
	} {
		if got := at.Compare(tt.next); got != tt.order || at.Lost(tt.next) != tt.lost {
			t.Errorf("%+v: %v, lost %v", tt.next, got, at.Lost(tt.next))
		}
	}
}

// A renewal ends its epoch, also if another node has built on the loss meanwhile, and does
// nothing to a later epoch, or to a room that nobody has ever joined.
func TestRenew(t *testing.T) {
	for _, tt := range []struct {
		at     Position
		renews bool
	}{{Position{"e", 3, "m"}, true}, {Position{"e", 900, "m"}, true}, {Position{"f", 1, "m"}, false}} {
		r := NewRoom("42", tt.at, map[string]Member{})
		if _, err := r.Apply(Renew{Epoch: "e"}, Rules{}, Origin{}); err != nil || r.Renewed() != tt.renews || r.Changed() != tt.renews {
			t.Errorf("%+v: renewed %v, %v", tt.at, r.Renewed(), err)
		}
	}
	r := NewRoom("42", Position{}, map[string]Member{})
	if _, err := r.Apply(Renew{Epoch: ""}, Rules{}, Origin{}); err != nil || r.Changed() {
		t.Errorf("a room that nobody has joined: changed %v, %v", r.Changed(), err)
	}
}
