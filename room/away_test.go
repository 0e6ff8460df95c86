package room

import (
	"errors"
	"fmt"
	"testing"
)

// Others see that a member is away and that the member is back, but not that another session
// is the active one of a member who was there all the time. Followers and snapshots say the same.
func TestAwayAndBack(t *testing.T) {
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	other := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	for _, step := range []struct {
		action  Action
		changes string
		away    bool
	}{
		{Join{User: "a", Session: "1"}, "[{join a 0  false <nil>}]", false},
		{Join{User: "a", Session: "2"}, "[]", false},
		{Detach{User: "a", Session: "2"}, "[{away a 0  false <nil>}]", true},
		{Detach{User: "a", Session: "2"}, "[]", true},
		{Join{User: "a", Session: "3"}, "[{back a 0  false <nil>}]", false},
		{Detach{User: "a", Session: "3"}, "[{away a 0  false <nil>}]", true},
		{Keep{User: "a", Session: "3"}, "[{back a 0  false <nil>}]", false},
		{Detach{User: "a", Session: "3"}, "[{away a 0  false <nil>}]", true},
		{Say{User: "a", Session: "3", Text: "x", To: []string{"b"}}, "[]", true},           // nobody is back who fails
		{Ready{User: "a", Session: "3", Value: false}, "[{back a 0  false <nil>}]", false}, // it is there after all
		{Upkeep{Stray: "m"}, "[]", false},
		{Upkeep{Stray: "n"}, "[{away a 0  false <nil>}]", true},
		{Upkeep{Stray: "n"}, "[]", true},
		{Leave{User: "a", Session: "3", Reason: ReasonTimeout}, "[{leave a 0 timeout false <nil>}]", false},
		{Join{User: "b", Session: "1"}, "[{join b 0  false <nil>}]", false},
		{Upkeep{Evict: "n"}, "[{leave b 0 node false <nil>}]", false},
	} {
		if _, err := r.Apply(step.action, Rules{}, Origin{Node: "n"}); (err != nil) != (KindOf(step.action) == KindMessage) {
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

// A session cannot keep a seat that is only reserved for its user: it has to join, and nobody else has taken it.
func TestKeep_ReservedSeat(t *testing.T) {
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	if _, err := r.Apply(Reserve{Session: "party", Users: []string{"a"}}, Rules{}, Origin{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(Keep{User: "a", Session: "1"}, Rules{}, Origin{}); !errors.Is(err, ErrNotMember) {
		t.Errorf("keep: %v", err)
	}
	if _, err := r.Apply(Join{User: "a", Session: "1", Mode: JoinAgain}, Rules{}, Origin{}); err != nil {
		t.Errorf("join again: %v", err)
	}
}

func copyOf(r *Room) map[string]Member {
	members := map[string]Member{}
	for user, m := range r.Members() {
		members[user] = m
	}
	return members
}

// Whoever says that a member is away, the member stays one of its node: there the seat is given up, or
// the session comes back from. A session that is told keeps its node, too.
func TestWhoIsAwayKeepsTheNode(t *testing.T) {
	members := func() map[string]Member { return map[string]Member{"a": {Session: "1", Node: "dead"}} }
	r, other := NewRoom("42", Position{"e", 3, ""}, members()), NewRoom("42", Position{"e", 3, ""}, members())
	if n, err := r.Apply(Upkeep{Stray: "dead"}, Rules{}, Origin{Node: "living"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	e := r.Pending("e", "living").Event("42")
	if m, _ := r.Member("a"); m.Node != "dead" || !other.Advance(e) {
		t.Errorf("it is %+v", m)
	}
	if m, _ := other.Member("a"); m.Node != "dead" || !m.Detached() {
		t.Errorf("a follower knows %+v", m)
	}
	if node, shown := e.NodeOf("a"); shown {
		t.Errorf("its session is told that it is of %s", node)
	}
}

// A join that yields takes a seat over only from a session that is disconnected, or its own, whatever the rules say.
func TestJoin_Yield(t *testing.T) {
	r := NewRoom("42", Position{"e", 3, ""}, map[string]Member{"a": {Session: "1"}})
	for _, step := range []struct {
		action Action
		want   error
	}{
		{Join{User: "a", Session: "2", Yield: true}, ErrDuplicate},
		{Join{User: "a", Session: "1", Yield: true}, nil},
		{Detach{User: "a", Session: "1"}, nil},
		{Join{User: "a", Session: "2", Yield: true}, nil},
		{Join{User: "b", Session: "2", Yield: true}, nil},
		{Join{User: "a", Session: "3"}, nil},
	} {
		if _, err := r.Apply(step.action, Rules{}, Origin{}); !errors.Is(err, step.want) {
			t.Errorf("%+v: %v, want %v", step.action, err, step.want)
		}
	}
}
