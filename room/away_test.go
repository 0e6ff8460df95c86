package room

import (
	"fmt"
	"testing"
)

// Others see that a member is away and that the member is back, but not that another session
// speaks for a member who was there all the time. Followers and snapshots say the same.
func TestAwayAndBack(t *testing.T) {
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	other := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	for _, step := range []struct {
		action  Action
		changes string
		away    bool
	}{
		{Join("a", "1"), "[{join a 0  false <nil>}]", false},
		{Join("a", "2"), "[]", false},
		{Detach("a", "2"), "[{away a 0  false <nil>}]", true},
		{Detach("a", "2"), "[]", true},
		{Join("a", "3"), "[{back a 0  false <nil>}]", false},
		{Detach("a", "3"), "[{away a 0  false <nil>}]", true},
		{Keep("a", "3"), "[{back a 0  false <nil>}]", false},
		{Detach("a", "3"), "[{away a 0  false <nil>}]", true},
		{Leave("a", "3").Because(ReasonTimeout), "[{leave a 0 timeout false <nil>}]", false},
		{Join("b", "1"), "[{join b 0  false <nil>}]", false},
		{Leave("b", "1"), "[{leave b 0 left false <nil>}]", false},
	} {
		if _, err := r.Apply(step.action, Rules{}, Origin{Node: "n"}); err != nil {
			t.Fatalf("%+v: %v", step.action, err)
		}
		if got := fmt.Sprint(changesOf(r)); got != step.changes {
			t.Errorf("%+v: players are told %s, want %s", step.action, got, step.changes)
		}
		other = follow(t, other, r)
		r.Commit("e", "mark")
		if !r.Changed() && other.Version > r.Version { // nothing was committed
			other.Version = r.Version
		}
		for name, known := range map[string]*Room{"the node": r, "a follower": other, "one that reads it": NewRoom("42", r.Position, copyOf(r))} {
			for _, o := range known.Snapshot().Users() {
				if o.Away != step.away {
					t.Errorf("%+v: %s shows %+v", step.action, name, o)
				}
			}
			if known.Count() != r.Count() {
				t.Errorf("%+v: %s has %d members", step.action, name, known.Count())
			}
		}
	}
}

// An action that is undone leaves nobody away.
func TestAwayIsUndone(t *testing.T) {
	r := NewRoom("42", Position{"e", 3, ""}, map[string]Member{"a": {Seat: 20, Session: "1"}, "b": {Seat: 21, Session: detached + "1"}})
	for _, a := range []Action{Detach("a", "1"), Join("b", "2"), Leave("a", "1")} {
		_, _ = r.Apply(a, Rules{}, Origin{})
	}
	r.Revert()
	if got := fmt.Sprint(r.Snapshot().Users()); got != "[{a 20 false false } {b 21 true false }]" {
		t.Errorf("the room holds %s", got)
	}
	if n := evict(r, ""); n != 2 || changesOf(r)[0].Reason != ReasonNode {
		t.Errorf("%d members of a dead node left: %v", n, changesOf(r))
	}
}

func copyOf(r *Room) map[string]Member {
	members := map[string]Member{}
	for user, m := range r.Members() {
		members[user] = m
	}
	return members
}
