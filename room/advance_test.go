package room

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Random actions, committed or reverted: a copy that follows the events is the
// room, and a reverted room is what it was.
func TestCopyAndOriginal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		original := NewRoom("42", Position{"e", 1, ""}, map[string]Member{})
		copied := NewRoom("42", Position{"e", 1, ""}, map[string]Member{})
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for range rapid.IntRange(1, 20).Draw(t, "batches") {
			before, was := describeRoom(original), original.Snapshot()
			shown := describeUsers(was.Users())
			for _, p := range random.Perm(40)[:random.IntN(20)] {
				user, session := fmt.Sprint("u", p), fmt.Sprint("s", random.IntN(2))
				var a Action = Join{User: user, Session: session}
				if random.IntN(2) == 0 {
					a = Leave{User: user, Session: session}
				}
				_, _ = original.Apply(a, Rules{Seating: Capacity(30)}, Origin{"n", 5})
			}
			if random.IntN(3) == 0 {
				original.Revert()
				if after := describeRoom(original); after != before {
					t.Fatalf("reverted from\n%s to\n%s", before, after)
				}
				continue
			}
			if original.Changed() {
				c := original.Pending(original.Epoch, "n")
				if !copied.Advance(c.Event("42")) {
					t.Fatalf("cannot follow %+v", c)
				}
			}
			original.Commit("e", "m")
			if got, want := describeRoom(copied), describeRoom(original); got != want {
				t.Fatalf("the copy is\n%s, the room is\n%s", got, want)
			}
			if describeUsers(slices.Collect(func(yield func(Occupant) bool) {
				for i, c := range was.view.chunks {
					for j, user := range c.users {
						if user != "" && !yield(Occupant{User: user, Seat: i*chunkSeats + j, Away: c.away&(1<<j) != 0}) {
							return
						}
					}
				}
			})) != shown {
				t.Fatal("a snapshot changed")
			}
		}
	})
}

func describeRoom(r *Room) string {
	var list []string
	for user, m := range r.Members() {
		list = append(list, fmt.Sprint(user, m))
	}
	slices.Sort(list)
	s := r.Snapshot()
	return fmt.Sprint(r.Epoch, r.Version, list, describeUsers(s.Users()), s.Count(), r.Base(), r.members.seats.lowestFree())
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
		{RejoinEvent("42", Position{"e", 5, "m"}), true, 5},
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
				if !r.Advance(&Event{Epoch: "e", Version: c.Version, From: c.Version - 1, commit: c}) {
					b.Fatal("it does not follow")
				}
			}
		})
	}
}
