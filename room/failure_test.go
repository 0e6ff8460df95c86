package room

import (
	"fmt"
	"strings"
	"testing"
)

// One half of a move is taken back, with what the users brought along and what Rules.Starter has set; who had a seat reserved
// keeps it, and who has followed meanwhile is where he wants to be.
func TestUndo(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile []Action
		undo      func(*Undo)
		want      func(was, moved string) string
	}{
		"nothing":                  {nil, nil, func(was, _ string) string { return strings.Replace(was, "~+party", "~+r", 1) }},
		"nobody knows":             {nil, func(u *Undo) { u.Written = false }, func(was, _ string) string { return strings.Replace(was, "~+party", "~+r", 1) }},
		"it is of another session": {nil, func(u *Undo) { u.Written, u.Session = false, "other" }, func(_, moved string) string { return moved }},
		"who came has followed": {[]Action{Join{User: "c", Session: "own"}}, nil, func(was, _ string) string {
			return strings.Replace(strings.Replace(was, "~+party", "~+r", 1), "host", "c@4 own 6 false  , host", 1)
		}},
	} {
		rules := Rules{Starter: starterFunc(func(in View) (string, bool) { return `"begun"`, in.Count() > 4 })}
		r, at := NewRoom("C", Position{}, map[string]Member{}), int64(0)
		do := func(a Action) {
			t.Helper()
			at++
			if _, err := r.Apply(a, rules, Origin{Node: "n", At: at}); err != nil {
				t.Fatalf("%s: %T: %v", name, a, err)
			}
			r.Commit("e", fmt.Sprint("c", at))
		}
		for _, user := range []string{"b", "x", "y"} {
			do(Join{User: user, Session: "s"})
		}
		do(Deal{Hands: []Hand{{User: "b", Data: `"mine"`}}})
		do(Reserve{Session: "party", Users: []string{"a"}})
		was, data := describeMembers(r), r.State().Data.String()
		undo := Undo{Session: "r", Written: true, Since: r.Version, Data: r.State().Data, Were: make(map[string]Member), Users: []string{"a", "b", "c"}}
		for user, m := range r.Members() {
			undo.Were[user] = m
		}
		do(Reserve{Session: "r", Users: undo.Users, Carried: map[string]string{"a": `"ace"`, "b": `"king"`}})
		moved := describeMembers(r)
		if r.State().Data.String() == data {
			t.Errorf("%s: the game has not begun", name)
		}
		for _, a := range test.meanwhile {
			do(a)
		}
		if test.undo != nil {
			test.undo(&undo)
		}
		do(Upkeep{Undo: &undo})
		if got, want := describeMembers(r), test.want(was, moved); got != want || (r.State().Data.String() != data) != (want == moved) {
			t.Errorf("%s: %s, data %q, want %s", name, got, r.State().Data, want)
		}
	}
}

// describeMembers returns all members with what is kept of them.
func describeMembers(r *Room) (text string) {
	for _, o := range r.Snapshot().Users() {
		m, _ := r.Member(o.User)
		text += fmt.Sprintf("%s@%d %s %d %t %s %s, ", o.User, m.Seat, m.Session, m.At, m.Ready, m.Data, m.Private)
	}
	return text + "host " + r.State().Host
}
