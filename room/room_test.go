package room

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// step is an action on a room and what must come of it.
type step struct {
	do   Action
	seat int
	err  error
}

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		name     string
		capacity int
		steps    []step
		users    string
		changes  string
	}{
		{"lowest free seat", 0, []step{
			{Join{User: "李四", Session: "s1"}, 0, nil}, {Join{User: "王五", Session: "s2"}, 1, nil}, {Join{User: "张三", Session: "s3"}, 2, nil},
			{Leave{User: "王五", Session: "s2"}, 1, nil}, {Join{User: "赵六", Session: "s4"}, 1, nil},
		}, "李四@0 赵六@1 张三@2", "+李四@0 +王五@1 +张三@2 -王五@1 +赵六@1"},
		{"the seat asked for", 4, []step{
			{Join{User: "a", Session: "s", Seat: new(2)}, 2, nil}, {Join{User: "b", Session: "s", Seat: new(2)}, 0, ErrSeatTaken}, {Join{User: "b", Session: "s", Seat: new(0)}, 0, nil},
			{Join{User: "c", Session: "s"}, 1, nil}, {Join{User: "d", Session: "s"}, 3, nil},
		}, "b@0 c@1 a@2 d@3", "+a@2 +b@0 +c@1 +d@3"},
		{"capacity", 2, []step{
			{Join{User: "a", Session: "s"}, 0, nil}, {Join{User: "b", Session: "s"}, 1, nil}, {Join{User: "c", Session: "s"}, 0, ErrFull}, {Join{User: "c", Session: "s", Seat: new(0)}, 0, ErrFull},
			{Join{User: "b", Session: "s"}, 1, nil}, {Leave{User: "a", Session: "s"}, 0, nil}, {Join{User: "c", Session: "s"}, 0, nil},
		}, "c@0 b@1", "+a@0 +b@1 -a@0 +c@0"},
		{"joining again keeps the seat", 0, []step{
			{Join{User: "a", Session: "s", Seat: new(3)}, 3, nil}, {Join{User: "a", Session: "s"}, 3, nil}, {Join{User: "a", Session: "s", Seat: new(1)}, 3, nil}, {Join{User: "a", Session: "new"}, 3, nil},
			{Leave{User: "a", Session: "s"}, 0, ErrDuplicate}, {Leave{User: "a", Session: "new"}, 3, nil},
		}, "", "+a@3 -a@3"},
		{"leaving what one is not in", 0, []step{{Leave{User: "a", Session: "s"}, 0, ErrNotMember}}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRoom("42", Position{"e", 7, ""}, map[string]Member{})
			for i, s := range tt.steps {
				seat, err := r.Apply(s.do, Rules{Seating: Capacity(tt.capacity)}, Origin{})
				if seat != s.seat || !errors.Is(err, s.err) {
					t.Fatalf("step %d: seat %d, %v; want %d, %v", i, seat, err, s.seat, s.err)
				}
			}
			if got := describeUsers(r.Snapshot().Users()); got != tt.users {
				t.Errorf("users are %q, want %q", got, tt.users)
			}
			if got := describeChanges(changesOf(r)); got != tt.changes {
				t.Errorf("changes are %q, want %q", got, tt.changes)
			}
		})
	}
}

// changesOf returns what players will hear of the actions applied so far.
func changesOf(r *Room) []Change { return r.Pending("e", "n").Event(r.ID).Changes }

func describeUsers(users []Occupant) string {
	var parts []string
	for _, u := range users {
		parts = append(parts, fmt.Sprintf("%s@%d", u.User, u.Seat))
	}
	return strings.Join(parts, " ")
}

// describeChanges returns what happened to members.
func describeChanges(changes []Change) string {
	var parts []string
	for _, c := range changes {
		if c.Type == kindSettings {
			continue
		}
		sign := "+"
		if c.Type == KindLeave {
			sign = "-"
		}
		parts = append(parts, fmt.Sprintf("%s%s@%d", sign, c.User, c.Seat))
	}
	return strings.Join(parts, " ")
}

func TestTakeOverTellsTheOldSession(t *testing.T) {
	r := NewRoom("42", Position{"e", 1, ""}, map[string]Member{"a": {Seat: 5, Session: "old", Node: "n1", At: 99}})
	r.Restore(State{Settings: new(Settings)})
	if seat, err := r.Apply(Join{User: "a", Session: "new"}, Rules{}, Origin{}); seat != 5 || err != nil {
		t.Fatalf("seat %d, %v", seat, err)
	}
	if !slices.Equal(r.updates, []Update{{Type: kindReplace, User: "a", Seat: 5, Session: "new", Old: "old"}}) || len(changesOf(r)) != 0 {
		t.Errorf("updates are %+v", r.updates)
	}
	if m, _ := r.Member("a"); m.Session != "new" || m.At != 99 {
		t.Errorf("member is %+v", m)
	}
}

func TestLowestFreeSeatIsExact(t *testing.T) {
	var s seatMap
	for want := range 200 {
		if got := s.lowestFree(); got != want {
			t.Fatalf("lowest free is %d, want %d", got, want)
		}
		s.take(want, "u")
	}
	s.free(130)
	s.free(64)
	if got := s.lowestFree(); got != 64 {
		t.Fatalf("lowest free is %d, want 64", got)
	}
}
