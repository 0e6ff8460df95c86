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

// Members on other seats: two who swap are fine, and one whose seat another one gets is not.
func TestView_Seats(t *testing.T) {
	seat := func(user string, seat int) Change { return Change{Type: Seated, User: user, Seat: seat} }
	for _, tt := range []struct {
		name    string
		changes []Change
		final   string // of a, b and c
		want    string
	}{
		{"a swap", []Change{seat("a", 1), seat("b", 0)}, "102", ""},
		{"three change places", []Change{seat("a", 1), seat("b", 2), seat("c", 0)}, "120", ""},
		{"to a free seat", []Change{seat("a", 3)}, "312", "nobody has left for another"},
		{"one stays", []Change{seat("a", 1)}, "112", "[seat_clash]"},
		{"a stranger", []Change{seat("x", 3)}, "012", "[phantom]"},
		{"beyond", []Change{seat("a", 4)}, "412", "[oversold]"},
		{"and the store has others", []Change{seat("a", 1), seat("b", 0)}, "012", "[diverged]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLedger(Options{})
			v := l.View("42", "a", "a")
			rules := &Rules{Capacity: 4}
			users := func(seats string) (list []Member) {
				for i, user := range []string{"a", "b", "c"} {
					list = append(list, Member{User: user, Seat: int(seats[i] - '0')})
				}
				return list
			}
			start := RoomState{Epoch: "e", Version: 3, Users: users("012"), Settings: rules}
			l.Start("42", start)
			v.Snapshot(List{Epoch: "e", Version: 3, Count: 3, Users: start.Users, Settings: rules})
			v.Changed(Event{Epoch: "e", Version: 4, From: 3, Changes: tt.changes})
			l.Done("42", Request{Action: Swap, Users: users("012")}, Reply{Epoch: "e", Version: 4})
			l.Check(map[string]RoomState{"42": {Epoch: "e", Version: 4, Users: users(tt.final), Settings: rules}})
			found := strings.Join(l.Violations().Descriptions(), "; ")
			if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
				t.Errorf("found %q, want %q", found, tt.want)
			}
		})
	}
}
