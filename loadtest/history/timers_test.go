package history

import (
	"strings"
	"testing"
)

// A timer fires once, after it was set, and two players see the same timers.
func TestView_Timers(t *testing.T) {
	set := func(name string) Change { return Change{Type: Countdown, Detail: Detail{Timer: name, Set: true}} }
	cancelled := func(name string) Change { return Change{Type: Countdown, Detail: Detail{Timer: name}} }
	fired := func(name string) Change { return Change{Type: Fired, Detail: Detail{Timer: name}} }
	for _, tt := range []struct {
		name    string
		changes []Change
		other   Timers // in a list of another player, after the last of them
		want    string // of the description; empty for none
	}{
		{"set, and fired", []Change{set("turn"), fired("turn")}, Timers{"game"}, ""},
		{"set anew", []Change{set("turn"), set("turn"), fired("turn")}, Timers{"game"}, ""},
		{"as the list had it", []Change{fired("game")}, Timers{}, ""},
		{"twice", []Change{set("turn"), fired("turn"), fired("turn")}, Timers{"game"}, "[duplicate]"},
		{"never set", []Change{fired("turn")}, Timers{"game"}, "[duplicate]"},
		{"cancelled", []Change{set("turn"), cancelled("turn"), fired("turn")}, Timers{"game"}, "[duplicate]"},
		{"another sees others", []Change{set("turn")}, Timers{"game"}, "[diverged]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLedger(Options{Capacity: 4})
			v, other := l.View("42", "a", "a"), l.View("42", "b", "b")
			list := List{Epoch: "e", Version: 1, Count: 1, Users: []Member{{User: "a"}}, Timers: Timers{"game"}}
			v.Joined(0, list)
			for _, c := range tt.changes {
				list.Version++
				v.Changed(Event{Epoch: "e", Version: list.Version, From: list.Version - 1, Changes: []Change{c}})
			}
			list.Timers = tt.other
			other.Snapshot(list)
			found := strings.Join(l.Violations().Descriptions(), "; ")
			if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
				t.Errorf("found %q, want %q", found, tt.want)
			}
		})
	}
}
