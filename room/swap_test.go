package room

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"roomd/lockmgr/redistest"
)

// seated returns who sits where, as a snapshot shows it.
func seated(r *Room) (list string) {
	for _, o := range r.Snapshot().Users() {
		list += fmt.Sprintf("%s@%d", o.User, o.Seat)
		if o.Away {
			list += " away"
		}
		list += o.Data + " "
	}
	return list
}

func TestSwap(t *testing.T) {
	g := timed(t)
	g.must(SetMemberData{User: "a", Session: "sa", Data: "1"})
	g.must(Detach{User: "b", Session: "sb"})
	redistest.Equal(t, "the changes are", g.must(Swap{Users: []string{"a", "b"}}), "seat seat")
	redistest.Equal(t, "the room is", seated(g.is), "b@0 away a@11 ")
	redistest.Equal(t, "who follows it has", seated(g.far), seated(g.is))
	g.must(Join{User: "b", Session: "s2"}) // keeps the seat
	g.must(Leave{User: "a", Session: "sa"})
	redistest.Equal(t, "the room is", seated(g.is), "b@0 ")
	g.fails(Swap{Users: []string{"a", "b"}}, ErrNotMember)
	g.fails(Swap{Users: []string{"b", "a"}}, ErrNotMember)
	g.fails(Swap{Users: []string{"b"}}, ErrInvalid)
	g.fails(Swap{Users: []string{"b", "b"}}, ErrInvalid)
	redistest.Equal(t, "a refused one leaves", seated(g.is), "b@0 ")
}

// The host may swap and shuffle, and no other member.
func TestSwap_ByTheHost(t *testing.T) {
	g := timed(t)
	users, host, other := []string{"a", "b"}, Claim{"a", "sa"}, Claim{"b", "sb"}
	g.fails(Swap{Users: users, As: host}, ErrForbidden) // nobody is the host
	g.fails(Shuffle{As: host}, ErrForbidden)
	g.must(Configure{Settings: Settings{Host: HostLongest}})
	g.must(Swap{Users: users, As: host})
	g.must(Shuffle{As: host})
	for _, a := range []Action{Swap{Users: users, As: other}, Shuffle{As: other}} {
		g.fails(a, ErrForbidden)
	}
	g.fails(Swap{Users: users, As: Claim{"a", "another"}}, ErrNotMember)
	redistest.Equal(t, "the room is", seated(g.is), "a@0 b@1 ")
}

// However often a shuffle is applied, it makes the same of a room; nobody keeps the seat; and each of the two
// arrangements that three have is drawn.
func TestShuffle(t *testing.T) {
	g := timed(t)
	g.must(Join{User: "c", Session: "sc", Seat: new(7)})
	before, drawn := g.is.Snapshot().Users(), map[string]bool{}
	for seed := range uint64(20) {
		for range 2 {
			_, err := g.is.Apply(Shuffle{Seed: seed}, Rules{}, Origin{})
			redistest.OK(t, err)
			list := seated(g.is)
			for _, o := range before {
				if m, _ := g.is.Member(o.User); m.Seat == o.Seat {
					t.Errorf("seed %d: %s stays on seat %d", seed, o.User, o.Seat)
				}
			}
			drawn[list] = true
			g.is.Revert()
			redistest.Equal(t, "undone, it is", seated(g.is), "a@0 b@1 c@7 ")
		}
	}
	if lists := slices.Sorted(maps.Keys(drawn)); !slices.Equal(lists, []string{"b@0 c@1 a@7 ", "c@0 a@1 b@7 "}) {
		t.Errorf("arrangements: %q", lists)
	}
	alone := newGame(t)
	alone.must(Join{User: "a", Session: "s"})
	redistest.Equal(t, "who is alone", alone.must(Shuffle{Seed: 1}), "")
}

// Who comes from another room has the private data that it had there, unless it is here already, with some of its own. In
// the commit they follow the join, and undone they are gone.
func TestReserve_Carried(t *testing.T) {
	g := newGame(t)
	has := func() string { return fmt.Sprint(g.is.Snapshot().Private(Viewer{Authority: true})) }
	come := func(session, user, data string) string {
		return g.must(Reserve{Session: session, Users: []string{user}, Carried: map[string]string{user: data, "else": "0"}})
	}
	redistest.Equal(t, "the changes are", come("r1", "a", "1"), "join private")
	redistest.Equal(t, "the second mover's are", come("r2", "a", "2"), "private")
	g.must(Join{User: "a", Session: "s"})
	redistest.Equal(t, "who has some keeps those", come("r3", "a", "3"), "")
	g.must(Join{User: "b", Session: "s"})
	redistest.Equal(t, "who has none gets them", come("r3", "b", "4"), "private")
	redistest.Equal(t, "the room has", has(), "map[a:2 b:4]")
	_, _ = g.is.Apply(Reserve{Session: "r4", Users: []string{"c"}, Carried: map[string]string{"c": "6"}}, Rules{}, Origin{})
	g.is.Revert()
	redistest.Equal(t, "the room has", has(), "map[a:2 b:4]")
}
