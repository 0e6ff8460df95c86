package room

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Random actions, committed or reverted: a refused one changes nothing, seats are those of the members, a reverted room
// is what it was, and who follows the events, or what players are told, knows the room.
func TestRoom_AnyActions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := []Rules{{Seating: Capacity(3)}, {Seating: Capacity(5)}, {}}
		r, far := NewRoom("42", Position{"e", 1, ""}, map[string]Member{}), NewRoom("42", Position{"e", 1, ""}, map[string]Member{})
		told := map[string]int{} // seats by user, as players are told
		for range rapid.IntRange(1, 20).Draw(t, "batches") {
			before, was := describeRoom(r), r.Snapshot()
			shown := describeUsers(was.Users())
			for range rapid.IntRange(0, 6).Draw(t, "actions") {
				is, changes := describeRoom(r), len(changesOf(r))
				_, err := r.Apply(anyAction(t), rapid.SampledFrom(nodes).Draw(t, "rules"), Origin{"n", 5})
				if err != nil && (describeRoom(r) != is || len(changesOf(r)) != changes) {
					t.Fatalf("%v changed\n%s to\n%s", err, is, describeRoom(r))
				}
				again := NewRoom("42", r.Position, maps.Clone(r.members.byUser))
				if seated(again) != seated(r) || again.Snapshot().Count() != r.Snapshot().Count() || again.members.seats.lowestFree() != r.members.seats.lowestFree() {
					t.Fatalf("the members make %q, the room shows %q", seated(again), seated(r))
				}
				if s, settled := r.Settings(); settled && r.Count() > s.Seats() {
					t.Fatalf("%d members, %+v", r.Count(), s)
				}
			}
			if rapid.IntRange(0, 2).Draw(t, "then") == 0 {
				if r.Revert(); describeRoom(r) != before {
					t.Fatalf("reverted from\n%s to\n%s", before, describeRoom(r))
				}
				continue
			}
			e := r.Pending("e", "n").Event("42")
			for _, c := range e.Changes {
				switch c.Type {
				case KindJoin, kindSeat:
					told[c.User] = c.Seat
				case KindLeave:
					delete(told, c.User)
				}
			}
			if r.Changed() && !far.Advance(e) {
				t.Fatalf("cannot follow %+v", e)
			}
			r.Commit("e", "")
			if got, want := describeRoom(far), describeRoom(r); got != want {
				t.Fatalf("the copy is\n%s, the room is\n%s", got, want)
			}
			for _, o := range r.Snapshot().Users() {
				if seat, in := told[o.User]; !in || seat != o.Seat || len(told) != r.Count() {
					t.Fatalf("changes lead to %v, the room is %s", told, seated(r))
				}
			}
			if again := (&seatView{chunks: was.view.chunks}); describeUsers(again.occupants()) != shown {
				t.Fatal("a snapshot changed")
			}
		}
	})
}

func anyAction(t *rapid.T) Action {
	user := func(which string) string { return fmt.Sprint("u", rapid.IntRange(0, 7).Draw(t, which)) }
	one, other, session := user("one"), user("other"), rapid.SampledFrom([]string{"s", "t"}).Draw(t, "session")
	join := Join{User: one, Session: session}
	return rapid.SampledFrom([]Action{
		join, join, join, Join{User: one, Session: session, Seat: new(rapid.IntRange(-1, 20).Draw(t, "seat"))},
		Leave{User: one, Session: session}, Swap{Users: []string{one, other}}, Shuffle{Seed: rapid.Uint64().Draw(t, "seed")},
		Release{Users: []string{one}, Target: "43"}, Reserve{Users: []string{one, other}, Session: "x"}, Kick{User: one},
		Configure{Settings: Settings{Capacity: rapid.IntRange(0, 6).Draw(t, "capacity"), Closed: rapid.Bool().Draw(t, "closed")}},
	}).Draw(t, "action")
}

func describeRoom(r *Room) string {
	var list []string
	for user, m := range r.Members() {
		list = append(list, fmt.Sprint(user, m))
	}
	slices.Sort(list)
	s := r.Snapshot()
	return fmt.Sprint(r.Epoch, r.Version, list, describeUsers(s.Users()), s.Count(), r.Base(), r.members.seats.lowestFree(), s.Settings)
}

// What a copy cannot follow, it does not.
func TestAdvance_NeedsEveryEvent(t *testing.T) {
	event := func(epoch string, version uint64, commitID string) *Event {
		return (&Commit{Position: Position{epoch, version, commitID}}).Event("42")
	}
	for _, tt := range []struct {
		e        *Event
		advances bool
		at       uint64
	}{
		{event("e", 3, "old"), true, 5}, {event("e", 5, "m"), true, 5}, {event("e", 5, "another"), false, 5},
		{event("e", 6, "next"), true, 6}, {event("e", 7, "next"), false, 5}, {event("f", 6, "next"), false, 5},
		{&Event{Epoch: "e", Version: 6, From: 5, Snapshot: &Snapshot{}}, false, 5},
		{&Event{Epoch: "e", Version: 5, From: 5, Rejoin: true}, true, 5},
	} {
		r := NewRoom("42", Position{"e", 5, "m"}, map[string]Member{})
		if got := r.Advance(tt.e); got != tt.advances || r.Version != tt.at {
			t.Errorf("%+v: %v, version %d", tt.e, got, r.Version)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	r := NewRoom("42", Position{"e", 1, ""}, map[string]Member{})
	for _, n := range []int{10, 10_000} {
		for i := r.Count(); i < n; i++ {
			_, _ = r.Apply(Join{User: string(rune(i)), Session: "s"}, Rules{}, Origin{})
		}
		r.Commit("e", "")
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = r.Apply(Join{User: "x", Session: "s"}, Rules{}, Origin{})
				_, _ = r.Apply(Leave{User: "x", Session: "s"}, Rules{}, Origin{})
				r.Commit("e", "")
				r.Snapshot()
			}
		})
	}
}

// What it costs to follow another room's commits of so many joins and leaves.
func BenchmarkAdvance(b *testing.B) {
	for _, n := range []int{1, 32} {
		b.Run(fmt.Sprintf("updates=%d", n), func(b *testing.B) {
			r := NewRoom("42", Position{"e", 1, "m"}, map[string]Member{})
			b.ReportAllocs()
			for b.Loop() {
				c := &Commit{Position: Position{"e", r.Version + 1, "m"}, Node: "n"}
				kind := []Kind{KindJoin, KindLeave}[r.Version%2]
				for i := range n {
					c.Updates = append(c.Updates, Update{Type: kind, User: "someone" + string(rune('a'+i)), Seat: i, Session: "b0ec48c7-6b0e-4a55-9d6b-3a8d6b7c1d2e"})
				}
				if !r.Advance(&Event{Epoch: "e", Version: c.Version, From: c.Version - 1, Commit: c}) {
					b.Fatal("it does not follow")
				}
			}
		})
	}
}
