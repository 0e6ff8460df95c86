package room

import (
	"fmt"
	"strings"
	"testing"
)

// Half of an exchange of full rooms is taken back: who had left for it sits as before, and who has come, or gone, by himself
// meanwhile is where he wants to be.
func TestUndo(t *testing.T) {
	const was = "x@0 s 1 true 1 2, y@1 s 2 false  , host x"
	for name, test := range map[string]struct {
		meanwhile []Action
		undo      func(u *Undo)
		want      string
	}{
		"nothing":                        {nil, nil, "x@0 ~+r 1 true 1 2, y@1 s 2 false  , host x"},
		"the half was not written":       {nil, func(u *Undo) { u.Since = 100 }, "y@1 s 2 false  , host y"},
		"another version took him out":   {nil, func(u *Undo) { u.Since-- }, "y@1 s 2 false  , host y"},
		"it was for another room":        {nil, func(u *Undo) { u.From = "other" }, "y@1 s 2 false  , host y"},
		"who came has followed":          {[]Action{Join{User: "a", Session: "own"}}, nil, "a@0 own 3 false  , y@1 s 2 false  , host y"},
		"and there is another seat":      {[]Action{Join{User: "a", Session: "own"}, Leave{User: "y", Session: "s"}}, nil, "a@0 own 3 false  , x@1 ~+r 1 true 1 2, host x"},
		"who left is back":               {[]Action{Release{Users: []string{"a"}}, Join{User: "x", Session: "own"}}, nil, "x@0 own 5 false  , y@1 s 2 false  , host y"},
		"who left was banned":            {[]Action{Kick{User: "x", Until: Forever}}, nil, "y@1 s 2 false  , host y"},
		"the room was closed to joins":   {[]Action{Configure{Settings: Settings{Capacity: 2, Host: HostLongest, Closed: true}}}, nil, "x@0 ~+r 1 true 1 2, y@1 s 2 false  , host x"},
		"the room was shut":              {[]Action{Close{}}, nil, "host "},
		"the next host has left as well": {[]Action{Leave{User: "y", Session: "s"}}, nil, "x@0 ~+r 1 true 1 2, host x"},
	} {
		rules := Rules{Seating: Capacity(2)}
		r := NewRoom("C", Position{}, map[string]Member{})
		at := int64(-1)
		version := r.Version
		do := func(a Action) {
			t.Helper()
			at++
			if _, err := r.Apply(a, rules, Origin{Node: "n", At: at}); err != nil {
				t.Fatalf("%s: %T: %v", name, a, err)
			}
			version++
			r.Commit("e", fmt.Sprint("c", version))
		}
		do(Configure{Settings: Settings{Capacity: 2, Host: HostLongest}})
		do(Join{User: "x", Session: "s"})
		do(Join{User: "y", Session: "s"})
		at = 2
		do(Ready{User: "x", Session: "s", Value: true})
		do(SetMemberData{User: "x", Session: "s", Data: "1"})
		do(Deal{Hands: []Hand{{User: "x", Data: "2"}}})
		if got := describeMembers(r); got != was {
			t.Fatalf("before: %s", got)
		}
		x, _ := r.Member("x")
		undo := Undo{
			Session: "r", From: "A", Written: true, Since: r.Version, Host: "x", Data: r.Data(), Were: map[string]Member{"x": x},
			Users: []string{"a"}, Back: []string{"x"},
		}
		at = 2
		do(Exchange{Out: []string{"x"}, Target: "A", In: []string{"a"}, Session: "r"})
		for _, a := range test.meanwhile {
			do(a)
		}
		if test.undo != nil {
			test.undo(&undo)
		}
		do(undo)
		if got := describeMembers(r); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// What a user takes along to a room in which he has a seat, and what Rules.Starter does there, is taken back as well; and a seat is
// the one of before, whatever a rule of the game says.
func TestUndo_WhoHadASeat(t *testing.T) {
	var begun bool
	rules := Rules{Starter: starterFunc(func(in View) (string, bool) {
		_, there := in.SeatOf("x")
		return `"without x"`, !there && in.Count() > 2
	}), Seating: seatingFunc(func(in View, user string, asked int) (int, error) {
		if begun {
			return 0, Forbid("the game has begun")
		}
		return Capacity(4).Seat(in, user, asked)
	})}
	r, at := NewRoom("C", Position{}, map[string]Member{}), int64(0)
	do := func(a Action) {
		t.Helper()
		at++
		if _, err := r.Apply(a, rules, Origin{Node: "n", At: at}); err != nil {
			t.Fatalf("%T: %v", a, err)
		}
		r.Commit("e", fmt.Sprint("c", at))
	}
	for _, user := range []string{"b", "x", "y"} {
		do(Join{User: user, Session: "s"})
	}
	do(Deal{Hands: []Hand{{User: "b", Data: `"mine"`}}})
	do(Ready{User: "b", Session: "s", Value: true})
	do(Ready{User: "y", Session: "s", Value: true})
	do(Reserve{Session: "party", Users: []string{"a"}})
	was, data := describeMembers(r), r.Data().String()
	undo := Undo{Session: "r", From: "A", Written: true, Since: r.Version, Data: r.Data(), Were: make(map[string]Member), Users: []string{"a", "b"}, Back: []string{"x"}}
	for user, m := range r.Members() {
		undo.Were[user] = m
	}
	do(Exchange{Out: []string{"x"}, Target: "A", In: []string{"a", "b"}, Session: "r", Carried: Carried{"a": `"ace"`, "b": `"king"`}})
	if r.Data().String() == data {
		t.Error("the game has not begun")
	}
	begun = true
	do(undo)
	if got, want := describeMembers(r), strings.NewReplacer("~+party", "~+r", "x@1 s", "x@1 ~+r").Replace(was); got != want || r.Data().String() != data {
		t.Errorf("%s, data %q\nwant %s, data %q", got, r.Data(), want, data)
	}
}

// describeMembers returns all members with what is kept of them.
func describeMembers(r *Room) (text string) {
	for _, o := range r.Snapshot().Users() {
		m, _ := r.Member(o.User)
		text += fmt.Sprintf("%s@%d %s %d %t %s %s, ", o.User, m.Seat, m.Session, m.At, m.Ready, m.Data, m.Private)
	}
	return text + "host " + r.Host()
}
