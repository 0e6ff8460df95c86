package room

import (
	"errors"
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
	open, kicked := Configure(Settings{}), Kick("a").Saying("too loud")
	tests := []struct {
		name    string
		room    *Room
		epoch   string
		version uint64
		want    Gone // zero: the user comes in
	}{
		{"still there", build(), "e", 5, Gone{}},
		{"kicked", build(kicked), "e", 5, Gone{6, ReasonKicked, "too loud", ""}},
		{"kicked, any epoch", build(kicked), "", 5, Gone{6, ReasonKicked, "too loud", ""}},
		{"kicked in a newer epoch", build(kicked), "d", 99, Gone{6, ReasonKicked, "too loud", ""}},
		{"kicked before that version", build(kicked), "e", 6, Gone{}},
		{"banned, too", build(Kick("a").Ban(Forever)), "e", 5, Gone{6, ReasonKicked, "", ""}},
		{"closed", build(Shut()), "e", 5, Gone{6, ReasonClosed, "", ""}},
		{"closed and opened", build(Shut(), open), "e", 5, Gone{}},
		{"moved", build(ReleaseTo("43", "a")), "e", 5, Gone{6, ReasonMoved, "", "43"}},
		{"moved, and seated again", build(ReleaseTo("43", "a"), Reserve("r", "a")), "e", 5, Gone{}},
		{"left", build(Leave("a", "old")), "e", 5, Gone{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.room.Apply(Join("a", "new").Unchanged(tt.epoch, tt.version), Rules{}, Origin{"n", 5})
			var gone *GoneError
			errors.As(err, &gone)
			switch {
			case tt.want == Gone{} && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != Gone{} && (gone == nil || gone.Gone != tt.want || !errors.Is(err, ErrConflict)):
				t.Errorf("got %+v, %v, want %+v", gone, err, tt.want)
			}
			if tt.want.Reason == ReasonKicked && !tt.room.Changed() { // whoever does not ask comes in
				if _, err := tt.room.Apply(Join("a", "new"), Rules{}, Origin{"n", 5}); err != nil && !errors.Is(err, ErrBanned) {
					t.Errorf("without a version: %v", err)
				}
			}
		})
	}
}
