package room

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// A join that expects a version fails if somebody with authority has taken the user out since, and
// only then.
func TestJoinAfterWhatWasMissed(t *testing.T) {
	build := func(then ...Action) *Room {
		r := NewRoom("42", Position{"e", 5, ""}, map[string]Member{"a": {Seat: 3, Session: "old", Node: "n"}})
		for _, a := range then {
			if _, err := r.Apply(a, Rules{}, Origin{"n", 5}); err != nil {
				t.Fatal(err)
			}
			r.Commit("e", "m")
		}
		return r
	}
	open, kicked := Configure{Settings: Settings{}}, Kick{User: "a", Text: "too loud"}
	tests := []struct {
		name    string
		room    *Room
		epoch   string
		version uint64
		want    Gone // zero: the user comes in
	}{
		{"still there", build(), "e", 5, Gone{}},
		{"kicked", build(kicked), "e", 5, Gone{6, reasonKicked, "too loud", "", 5, ""}},
		{"kicked, any epoch", build(kicked), "", 5, Gone{6, reasonKicked, "too loud", "", 5, ""}},
		{"kicked in a newer epoch", build(kicked), "d", 99, Gone{6, reasonKicked, "too loud", "", 5, ""}},
		{"kicked before that version", build(kicked), "e", 6, Gone{}},
		{"banned, too", build(Kick{User: "a", Until: Forever}), "e", 5, Gone{6, reasonKicked, "", "", 5, ""}},
		{"closed", build(Close{}), "e", 5, Gone{6, reasonClosed, "", "", 5, ""}},
		{"closed and opened", build(Close{}, open), "e", 5, Gone{}},
		{"moved", build(Release{Target: "43", Users: []string{"a"}}), "e", 5, Gone{6, ReasonMoved, "", "43", 5, ""}},
		{"moved by the party", build(Release{Target: "43", Users: []string{"a"}, Labels: "{}", Mover: "a"}), "e", 5, Gone{6, ReasonMoved, "", "43", 5, "{}"}},
		{"moved, and seated again", build(Release{Target: "43", Users: []string{"a"}}, Reserve{Session: "r", Users: []string{"a"}}), "e", 5, Gone{}},
		{"left", build(Leave{User: "a", Session: "old"}), "e", 5, Gone{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.room.Apply(Join{User: "a", Session: "new", Expect: ExpectVersion(tt.epoch, tt.version)}, Rules{}, Origin{"n", 5})
			var gone *RefusedError
			errors.As(err, &gone)
			switch {
			case tt.want == Gone{} && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != Gone{} && (gone == nil || gone.Gone != tt.want || !errors.Is(err, ErrConflict)):
				t.Errorf("got %+v, %v, want %+v", gone, err, tt.want)
			}
			if tt.want.Reason == reasonKicked && !tt.room.Changed() { // whoever does not ask comes in
				if _, err := tt.room.Apply(Join{User: "a", Session: "new"}, Rules{}, Origin{"n", 5}); err != nil && !errors.Is(err, ErrBanned) {
					t.Errorf("without a version: %v", err)
				}
			}
		})
	}
}

// Of users who were taken out together, all who follow the room forget the same ones.
func TestGoneIsTheSameForAll(t *testing.T) {
	members := make(map[string]Member)
	for i := range maxGone + 20 {
		members[fmt.Sprintf("u%03d", i)] = Member{Seat: i, Session: "s", Node: "n"}
	}
	r := NewRoom("42", Position{"e", 5, ""}, members)
	for user := range maps.Clone(members) {
		if _, err := r.Apply(Kick{User: user}, Rules{}, Origin{"n", 5}); err != nil {
			t.Fatal(err)
		}
	}
	if got := slices.Sorted(maps.Keys(r.State().Gone)); len(got) != maxGone || got[0] != "u020" {
		t.Errorf("%d users: %v", len(got), got)
	}
}
