package room

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// turn is an action at a time, and what comes of it: the changes that players hear of, or an error.
type turn struct {
	at     int64
	action Action
	want   string
}

// play runs steps in a room. After each it compares the room with that of a follower and with
// one that was read, and makes sure that what failed or was undone changed nothing.
func play(t *testing.T, rules Rules, steps []turn) *Room {
	t.Helper()
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	other := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	for _, s := range steps {
		before := show(r)
		do := func() error {
			a, err := Check(s.action, rules)
			if err == nil {
				_, err = r.Apply(a, rules, Origin{Node: "n", At: s.at})
			}
			return err
		}
		err := do()
		got := told(changesOf(r))
		if err != nil {
			got = err.Error()
		}
		if got != s.want {
			t.Errorf("%T %+v: %s\nwant %s", s.action, s.action, got, s.want)
		}
		if r.Revert(); show(r) != before {
			t.Errorf("%v is not undone: %s, before %s", KindOf(s.action), show(r), before)
		}
		if err != nil || do() != nil || !r.Changed() {
			continue
		}
		other = follow(t, other, r)
		r.Commit("e", "mark")
		if show(other) != show(r) {
			t.Errorf("after %v a follower has %s, the node %s", KindOf(s.action), show(other), show(r))
		}
	}
	return r
}

func told(changes []Change) string {
	list := []string{}
	for _, c := range changes {
		text := fmt.Sprintf("%s %s%d", c.Type, c.User, c.Seat)
		if c.Reason != "" {
			text += " " + string(c.Reason)
		}
		if c.Detail != nil && c.Again {
			text += " again"
		}
		if c.Away {
			text += " away"
		}
		if d := c.Detail; d != nil {
			ready := "false"
			if d.Ready != nil {
				ready = fmt.Sprint(*d.Ready)
			} else if c.Type == kindMember {
				ready = "as before"
			}
			text += strings.TrimRight(fmt.Sprintf(" %s %s %s %v %s", ready, string(d.Data), d.Text, d.To, d.Target), " []")
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func show(r *Room) string {
	s := r.Snapshot()
	return fmt.Sprint(s.Version, s.Users(), s.Settings, s.Data, r.state.data.since(), r.State().Bans, r.members.byUser["a"].Data, s.Private(Viewer{Authority: true}), r.members.byUser["a"].Private)
}

func TestData(t *testing.T) {
	r := play(t, Rules{}, []turn{
		{0, SetData{User: "a", Session: "s", Data: `1`}, "a is not in room 42"},
		{0, SetData{Data: `1`}, "data 0 false 1"}, // 1
		{0, Join{User: "a", Session: "s"}, "join a0"},
		{0, Join{User: "b", Session: "s"}, "join b1"},
		{0, SetData{User: "a", Session: "s", Data: ` {"turn" : "a" } `}, `data a0 false {"turn":"a"}`}, // 4
		{0, SetData{User: "b", Session: "s", Data: `{"turn":"a"}`}, ""},
		{0, SetData{User: "b", Session: "other", Data: `2`}, "b is in room 42 with another session"},
		{0, SetData{User: "b", Session: "s", Data: `2`, Expect: ExpectVersion("", 3)}, "the data of room 42 has changed since version 3"},
		{0, SetData{User: "b", Session: "s", Data: `2`, Expect: ExpectVersion("", 5)}, "room 42 is at version 4, not yet at 5"},
		{0, SetData{User: "b", Session: "s", Data: `2`, Expect: ExpectVersion("f", 4)}, "room 42 has begun anew"},
		{0, SetData{User: "b", Session: "s", Data: `2`, Expect: ExpectVersion("e", 4)}, "data b0 false 2"}, // 5
		{0, SetData{User: "b", Session: "s", Data: `null`}, "data b0 false"},
		{0, SetData{Data: `3`, Expect: ExpectVersion("", 5)}, "the data of room 42 has changed since version 5"},
		{0, Configure{Settings: Settings{Data: "x"}}, "data must be members or admins"},
		{0, Configure{Settings: Settings{Data: DataAdmins}}, "settings 0 false"}, // 7
		{0, SetData{User: "a", Session: "s", Data: `3`}, "the settings of room 42 let only admins set its data"},
		{0, SetData{Data: `3`, Expect: ExpectVersion("e", 7)}, "data 0 false 3"},
		{0, SetMemberData{User: "a", Session: "s", Data: `{"deck":"blue"}`}, `member a0 as before {"deck":"blue"}`}, // 9
		{0, Ready{User: "a", Session: "s", Value: true}, `member a0 true`},
		{0, Ready{User: "a", Session: "s", Value: true}, ""},
		{0, Ready{User: "a", Session: "other", Value: true}, "a is in room 42 with another session"},
		{0, SetMemberData{User: "a", Session: "s", Data: `4`, Expect: ExpectVersion("", 8)}, "the data of a has changed since version 8"},
		{0, SetMemberData{User: "a", Session: "s", Data: `4`, Expect: ExpectVersion("", 9)}, `member a0 as before 4`},
		{0, Join{User: "a", Session: "s2"}, ""}, // another session: ready and data stay
		{0, SetMemberData{User: "a", Session: "s2", Data: ``}, `member a0 as before null`},
		{0, Ready{User: "b", Session: "s", Value: true}, `member b1 true`},
		{0, Leave{User: "b", Session: "s"}, "leave b1 left"},
		{0, Join{User: "b", Session: "s"}, "join b1"}, // is not ready any more
	})
	if got := fmt.Sprint(r.Snapshot().Users()); got != "[{a 0 false true } {b 1 false false }]" {
		t.Errorf("the room has %s", got)
	}
}

// Private data are of a member until it leaves, also while it is away or has another session.
func TestPrivateData(t *testing.T) {
	large := `"` + strings.Repeat("x", defaultPrivateData) + `"`
	r := play(t, Rules{}, []turn{
		{0, Join{User: "a", Session: "s"}, "join a0"},
		{0, Join{User: "b", Session: "s", Seat: new(40)}, "join b40"},
		{0, Deal{User: "a", Session: "s", Hands: []Hand{{"a", ` {"cards": 1} `}}}, `private a0 false {"cards":1}`}, // 3
		{0, Deal{User: "a", Session: "s", Hands: []Hand{{"a", `{"cards":1}`}}}, ""},
		{0, Deal{User: "a", Session: "s", Hands: []Hand{{"b", `1`}}}, "only admins set the private data of others"},
		{0, Deal{User: "a", Session: "s", Hands: []Hand{{"a", `1`}, {"b", `1`}}}, "only admins set the private data of others"},
		{0, Deal{User: "a", Session: "other", Hands: []Hand{{"a", `1`}}}, "a is in room 42 with another session"},
		{0, Deal{User: "c", Session: "s", Hands: []Hand{{"c", `1`}}}, "c is not in room 42"},
		{0, Deal{User: "a", Session: "s", Hands: []Hand{{"a", large}}}, "data must be at most 1024 bytes long, not 1026"},
		{0, Deal{User: "a", Session: "s", Hands: []Hand{{"a", `3`}}, Expect: ExpectVersion("", 2)}, "the private data of a has changed since version 2"},
		{0, Deal{Hands: []Hand{{"a", `3`}, {"b", `4`}, {"c", `5`}}}, "c is not in room 42"},
		{0, Deal{Hands: []Hand{{"a", `3`}, {"b", large}}}, "hands.b must be at most 1024 bytes long, not 1026"},
		{0, Deal{Hands: []Hand{{"a", `3`}, {"b", `{`}}}, "hands.b is not valid JSON in UTF-8 whose objects have each name once"},
		{0, Deal{Hands: []Hand{{"a", `3`}, {"", `1`}}}, `hands names "", and a user must be 1 to 64 characters long, not 0`},
		{0, Deal{Hands: []Hand{{"a", `3`}, {"a", `4`}}}, "hands names a twice"},
		{0, Deal{}, "hands must be of 1 to 64 users, not 0"},
		{0, Deal{Hands: []Hand{{"b", `4`}, {"a", `3`}}, Expect: ExpectVersion("e", 2)}, "the private data of a has changed since version 2"},
		{0, Deal{User: "x", Session: "s", Authority: true, Hands: []Hand{{"b", `4`}, {"a", `3`}}, Expect: ExpectVersion("e", 3)}, "private b40 false 4, private a0 false 3"}, // 4
		{0, SetMemberData{User: "a", Session: "s", Data: `9`}, "member a0 as before 9"},
		{0, Detach{User: "a", Session: "s"}, "away a0"},
		{0, Deal{Hands: []Hand{{"a", `6`}}}, "private a0 false 6"}, // 7
		{0, Join{User: "a", Session: "s2"}, "back a0"},
		{0, Leave{User: "b", Session: "s"}, "leave b40 left"},
		{0, Join{User: "b", Session: "s"}, "join b1"},
		{0, Deal{Hands: []Hand{{"a", ""}}}, "private a0 false null"},
		{0, Deal{Hands: []Hand{{"a", "7"}}, Expect: ExpectVersion("", 10)}, "the private data of a has changed since version 10"},
		{0, Deal{Hands: []Hand{{"a", "7"}}, Expect: ExpectVersion("", 11)}, "private a0 false 7"},
		{0, Swap{Users: []string{"a", "b"}}, "seat a1, seat b0"}, // each takes its own along
		{0, Deal{Hands: []Hand{{"b", "8"}}}, "private b0 false 8"},
		{0, Swap{Users: []string{"a", "b"}}, "seat a0, seat b1"},
		{0, Deal{Hands: []Hand{{"b", "null"}}}, "private b1 false null"},
	})
	s := r.Snapshot()
	for _, tt := range []struct {
		who  Viewer
		want string
	}{
		{Viewer{}, "map[]"}, {Viewer{User: "b"}, "map[]"}, {Viewer{User: "x"}, "map[]"},
		{Viewer{User: "a"}, "map[a:7]"}, {Viewer{Authority: true}, "map[a:7]"},
	} {
		if got := fmt.Sprint(s.Private(tt.who)); got != tt.want {
			t.Errorf("%+v is shown %s", tt.who, got)
		}
	}
	if got := fmt.Sprint(s.Users()); got != "[{a 0 false false 9} {b 1 false false }]" {
		t.Errorf("the list has %s", got)
	}
	c := Change{Type: kindPrivate, User: "a"}
	if !c.IsFor(Viewer{User: "a"}) || !c.IsFor(Viewer{User: "b", Authority: true}) || c.IsFor(Viewer{User: "b"}) || c.IsFor(Viewer{}) {
		t.Error("the private data of a are shown to others, or neither to a nor to an admin")
	}
}

func TestMessages(t *testing.T) {
	play(t, Rules{}, []turn{
		{0, Join{User: "a", Session: "s"}, "join a0"},
		{0, Join{User: "b", Session: "s", Seat: new(3)}, "join b3"},
		{0, Say{Text: "hi"}, "message 0 false  hi"},
		{0, Say{User: "a", Session: "s", Data: "null", To: []string{"b"}}, "message a0 false null  [b"},
		{0, Say{User: "b", Session: "s", Text: "hi"}, "message b0 false  hi"},
		{0, Say{User: "b", Session: "s", Text: "hi", To: []string{"c"}}, "c is not in room 42"},
		{0, Say{User: "c", Session: "s", Text: "hi"}, "c is not in room 42"},
		{0, Say{Text: "hi", Data: "1"}, "text is what is said, or data is: one of both"},
		{0, Say{}, "text is what is said, or data is: one of both"},
		{0, Say{Text: "hi", To: []string{"a", "a"}}, "to names a twice"},
		{0, Say{Text: "hi", To: []string{"a", "\x00"}}, "to[1] may not hold the control character U+0000"},
	})
	c := Change{Type: KindMessage, User: "a", Detail: &Detail{To: []string{"b"}}}
	if !c.IsFor(Viewer{User: "a"}) || !c.IsFor(Viewer{User: "b"}) || c.IsFor(Viewer{User: "c", Authority: true}) || c.IsFor(Viewer{}) {
		t.Error("a message for b reaches others, or not b and who said it")
	}
}

func TestAuthority(t *testing.T) {
	r := play(t, Rules{}, []turn{
		{0, Join{User: "a", Session: "s"}, "join a0"},
		{0, Join{User: "b", Session: "s"}, "join b1"},
		{0, Kick{User: "c"}, "c is not in room 42"},
		{0, Kick{User: "a", Text: "spam"}, "leave a0 kicked false  spam"},
		{0, Join{User: "a", Session: "s"}, "join a0"},
		{1000, Kick{User: "a", Until: 6000}, "leave a0 kicked"},
		{1001, Join{User: "a", Session: "s"}, "a is banned from room 42 for another 5 s"},
		{1001, Reserve{Session: "r", Users: []string{"c", "a"}}, "a is banned from room 42 for another 5 s"},
		{6000, Join{User: "a", Session: "s"}, "join a0"},
		{7000, Kick{User: "c", Until: Forever}, ""},
		{7000, Kick{User: "c", Until: 8000}, ""}, // the later end counts
		{7001, Join{User: "c", Session: "s"}, "c is banned from room 42"},
		{7002, Unban{User: "c"}, ""},
		{7003, Join{User: "c", Session: "s"}, "join c2"},
		{7003, Kick{User: "c", Until: Forever + 1}, "ban must end after 1970 and before the year 10000"},
		{7003, Kick{User: "c", Text: strings.Repeat("x", 201)}, "text must be at most 200 bytes long, not 201"},
		{7003, Configure{Settings: Settings{Keep: true, Capacity: 9}}, "settings 0 false"},
		{7004, Close{}, "leave a0 closed, leave b1 closed, leave c2 closed, settings 0 false"},
		{7005, Join{User: "a", Session: "s"}, "room 42 is closed"},
		{7006, Reserve{Session: "r", Users: []string{"a"}}, "room 42 is closed"},
	})
	if s, _ := r.Settings(); s.Keep || !s.Closed || s.Capacity != 9 {
		t.Errorf("a room that was closed has %+v", s)
	}
}

// Whoever has missed why a user was taken out learns it from the room, until the user comes back.
// Who lost the place by a failure comes back also into a closed room, but not into one that was shut.
func TestGone(t *testing.T) {
	r := play(t, Rules{}, []turn{
		{0, Join{User: "a", Session: "s"}, "join a0"},
		{0, Join{User: "b", Session: "s"}, "join b1"},
		{0, Join{User: "c", Session: "s"}, "join c2"},
		{0, Kick{User: "a", Text: "spam"}, "leave a0 kicked false  spam"},
		{0, Release{Target: "43", Users: []string{"b"}}, "leave b1 moved false   [] 43"},
		{0, Join{User: "a", Session: "s", Mode: JoinAgain}, "a is not in room 42"},
		{0, Configure{Settings: Settings{Closed: true}}, "settings 0 false"},
		{0, Leave{User: "c", Session: "s", Reason: ReasonNode}, "leave c2 node"},
		{0, Join{User: "c", Session: "s"}, "room 42 is closed"},
		{0, Join{User: "c", Session: "s", Mode: JoinAgain}, "join c0 again false"},
		{0, Join{User: "b", Session: "s", Mode: JoinMoved}, "b is not in room 42"},
	})
	if got := fmt.Sprint(r.State().Gone); got != "map[a:{4 kicked spam  0 } b:{5 moved  43 0 }]" {
		t.Errorf("the room knows %s", got)
	}
	snapshot := SnapshotEvent(r, nil, nil)
	if leave, ok := snapshot.LeaveOf("d", "e", 1); ok {
		t.Errorf("d: %+v", leave)
	}
	if leave, ok := snapshot.LeaveOf("b", "e", 1); !ok || leave.Reason != ReasonMoved || leave.Target != "43" {
		t.Errorf("b: %+v, %v", leave, ok)
	}
	for _, a := range []Action{Leave{User: "c", Session: "s", Reason: ReasonNode}, Close{}, Join{User: "c", Session: "s", Mode: JoinAgain}} {
		if _, err := r.Apply(a, Rules{}, Origin{}); (err != nil) != (KindOf(a) == KindJoin) {
			t.Errorf("%v: %v", KindOf(a), err)
		}
	}
	_, _ = r.Apply(Configure{Settings: Settings{}}, Rules{}, Origin{})
	if _, err := r.Apply(Join{User: "a", Session: "s"}, Rules{}, Origin{}); err != nil || len(r.State().Gone) != 1 {
		t.Errorf("%v; then the room knows %v", err, r.State().Gone)
	}
}

// A room that is closed before anybody has joined keeps the capacity of the rules, when it is open again.
func TestAnUnusedRoomIsClosed(t *testing.T) {
	r := play(t, Rules{Seating: Capacity(4)}, []turn{{0, Close{}, "settings 0 false"}})
	if s, _ := r.Settings(); s != (Settings{Capacity: 4, Closed: true}) {
		t.Errorf("it has %+v", s)
	}
}

func TestBansHaveALimit(t *testing.T) {
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	ban := func(user string, until, now int64) error {
		_, err := r.Apply(Kick{User: user, Until: until}, Rules{}, Origin{At: now})
		r.Commit("e", "m")
		return err
	}
	for i := range maxBans {
		if err := ban(fmt.Sprint(i), int64(1000+i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Apply(Join{User: "more", Session: "s"}, Rules{}, Origin{At: 999}); err != nil {
		t.Fatal(err)
	}
	if err := ban("more", 5000, 999); err != nil || len(r.State().Bans) != maxBans || r.Count() != 0 || r.State().Bans["more"] != 5000 {
		t.Errorf("one more: %v, %d bans, %d members", err, len(r.State().Bans), r.Count())
	}
	if _, soonest := r.State().Bans["0"]; soonest {
		t.Error("it is not the ban that ends soonest that has made room")
	}
	if err := ban("again", 5000, 1002); err != nil || len(r.State().Bans) != maxBans-1 {
		t.Errorf("one more when two are over: %v, %d bans", err, len(r.State().Bans))
	}
}

func TestParties(t *testing.T) {
	many := make([]string, MaxGroup+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	play(t, Rules{Seating: Capacity(4)}, []turn{
		{0, Join{User: "a", Session: "s", Seat: new(1)}, "join a1, settings 0 false"},
		{0, Reserve{Session: "r", Users: []string{"b", "c", "d", "e"}}, "room 42 has 3 of 4 seats free, and not 4"},
		{0, Reserve{Session: "r", Users: []string{"b", "b"}}, "users names b twice"},
		{0, Reserve{Session: "r", Users: []string{}}, "users must name 1 to 64 users, not 0"},
		{0, Reserve{Session: "r", Users: many}, "users must name 1 to 64 users, not 65"},
		{0, Reserve{Session: "r", Users: []string{"b", "a", "c"}}, "join b0 away, join c2 away"},
		{0, Reserve{Session: "r2", Users: []string{"b", "c"}}, ""},
		{0, Join{User: "b", Session: "s"}, "back b0"},
		{0, Leave{User: "b", Session: "r"}, "b is in room 42 with another session"},
		{0, Leave{User: "c", Session: "r", Reason: ReasonTimeout}, "c is in room 42 with another session"},
		{0, Leave{User: "c", Session: "r2", Reason: ReasonTimeout}, "leave c2 timeout"},
		{0, Release{Users: []string{"b", "c"}}, "c is not in room 42"},
		{0, Release{Target: "43", Users: []string{"b", "a"}}, "leave b0 moved false   [] 43, leave a1 moved false   [] 43"},
		{0, Reserve{Session: "r", Users: []string{"x", "y", "z", "w"}}, "join x0 away, join y1 away, join z2 away, join w3 away"},
		{0, Reserve{Session: "r", Users: []string{"v"}}, "room 42 has 0 of 4 seats free, and not 1"},
	})
	// A rule of the game refuses the second of three: none has a seat.
	play(t, Rules{Seating: invited{"a", "c"}}, []turn{{0, Reserve{Session: "r", Users: []string{"a", "b", "c"}}, "b is not invited"}})
}

type invited []string

func (i invited) Seat(in View, user string, asked int) (int, error) {
	if !strings.Contains(strings.Join(i, " "), user) {
		return 0, Forbid("%s is not invited", user)
	}
	return Capacity(0).Seat(in, user, asked)
}

// A game begins in the commit in which the last of enough members is ready, and only once.
func TestAGameStartsOnce(t *testing.T) {
	play(t, Rules{Starter: AllReady(2)}, []turn{
		{0, Join{User: "a", Session: "s"}, "join a0"},
		{0, Ready{User: "a", Session: "s", Value: true}, "member a0 true"},
		{0, Join{User: "b", Session: "s"}, "join b1"},
		{0, Join{User: "c", Session: "s"}, "join c2"},
		{0, Ready{User: "b", Session: "s", Value: true}, "member b1 true"},
		{0, Leave{User: "c", Session: "s"}, `leave c2 left, data 0 false {"started":true}`},
		{0, Ready{User: "b", Session: "s", Value: false}, "member b1 false"},
		{0, Ready{User: "b", Session: "s", Value: true}, "member b1 true"},
		{0, SetData{Data: ""}, "data 0 false"},
		{0, Ready{User: "b", Session: "s", Value: false}, "member b1 false"},
		{0, Ready{User: "b", Session: "s", Value: true}, `member b1 true, data 0 false {"started":true}`},
	})
	for name, starter := range map[string]starterFunc{
		"no JSON": func(View) (string, bool) { return "{", true },
		"panics":  func(View) (string, bool) { panic("oops") },
	} {
		r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
		if _, err := r.Apply(Join{User: "a", Session: "s"}, Rules{Starter: starter}, Origin{}); !errors.Is(err, errSeating) || r.Count() != 0 || r.Changed() {
			t.Errorf("a rule that %s: %v, %d members", name, err, r.Count())
		}
	}
}

type starterFunc func(View) (string, bool)

func (f starterFunc) Start(in View) (string, bool) { return f(in) }

func TestParseData(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`[{"a":`, n) + "1" + strings.Repeat("}]", n) }
	for text, want := range map[string]string{
		``:                                  ``,
		` null `:                            ``,
		"{ \"a\" : [ 1 , 2 ] }":             `{"a":[1,2]}`,
		`"` + strings.Repeat("x", 98) + `"`: `"` + strings.Repeat("x", 98) + `"`,
		deep(4):                             deep(4),
		`"[[[["`:                            `"[[[["`,
		`{`:                                 "!data is not valid JSON in UTF-8 whose objects have each name once",
		`1 2`:                               "!data is not valid JSON in UTF-8 whose objects have each name once",
		`{"a":1,"a":2}`:                     "!data is not valid JSON in UTF-8 whose objects have each name once",
		"\"\xff\"":                          "!data is not valid JSON in UTF-8 whose objects have each name once",
		`"` + strings.Repeat("x", 99) + `"`: "!data must be at most 100 bytes long, not 101",
		strings.Repeat(" ", 300):            "!data must be at most 100 bytes long, not 300",
	} {
		got, err := parseData("data", text, 100)
		if err != nil {
			got = "!" + err.Error()
		}
		if got != want {
			t.Errorf("%.40s: %s, want %s", text, got, want)
		}
	}
	if _, err := parseData("data", deep(16), 1000); err != nil {
		t.Error(err)
	}
	if _, err := parseData("data", deep(17), 1000); err == nil || err.Error() != "data must be at most 32 levels deep, not 34" {
		t.Error(err)
	}
}
