package room

import "testing"

func TestPositionsCompare(t *testing.T) {
	at := Position{"e", 5, "m"}
	for _, tt := range []struct {
		next                       Position
		is, precedes, lost, misses bool
	}{
		{next: Position{"e", 5, "m"}, is: true},
		{next: Position{"e", 5, ""}, is: true}, // the commit id is not known
		{next: Position{"e", 6, "n"}, precedes: true},
		{next: Position{"e", 4, "l"}, lost: true, misses: true},
		{next: Position{"e", 5, "n"}, lost: true, misses: true}, // another commit of that version
		{next: Position{"f", 9, "n"}, misses: true},
		{next: Position{}, misses: true},
	} {
		if at.Is(tt.next) != tt.is || at.Precedes(tt.next) != tt.precedes || at.Lost(tt.next) != tt.lost || at.Gone(tt.next) != tt.misses {
			t.Errorf("%+v: %v, precedes %v, lost %v, gone %v", tt.next, at.Is(tt.next), at.Precedes(tt.next), at.Lost(tt.next), at.Gone(tt.next))
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
		if _, err := r.Apply(Upkeep{Renew: "e"}, Rules{}, Origin{}); err != nil || r.Renewed() != tt.renews || r.Changed() != tt.renews {
			t.Errorf("%+v: renewed %v, %v", tt.at, r.Renewed(), err)
		}
	}
	r := NewRoom("42", Position{}, map[string]Member{})
	if _, err := r.Apply(Upkeep{Renew: ""}, Rules{}, Origin{}); err != nil || r.Changed() {
		t.Errorf("a room that nobody has joined: changed %v, %v", r.Changed(), err)
	}
}
