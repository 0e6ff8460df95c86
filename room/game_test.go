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
			a, err := s.action.Check(rules)
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
			t.Errorf("%v %s: %s\nwant %s", s.action.kind, s.action.user, got, s.want)
		}
		if r.Revert(); show(r) != before {
			t.Errorf("%v is not undone: %s, before %s", s.action.kind, show(r), before)
		}
		if err != nil || do() != nil || !r.Changed() {
			continue
		}
		other = follow(t, other, r)
		r.Commit("e", "mark")
		if show(other) != show(r) {
			t.Errorf("after %v a follower has %s, the node %s", s.action.kind, show(other), show(r))
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
		if c.Away {
			text += " away"
		}
		if d := c.Detail; d != nil {
			text += strings.TrimRight(fmt.Sprintf(" %v %s %s %v %s", d.Ready, string(d.Data), d.Text, d.To, d.Target), " []")
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func show(r *Room) string {
	s := r.Snapshot()
	return fmt.Sprint(s.Version, s.Users(), s.Settings, s.Data, r.state.data.since(), r.Bans(), r.members.byUser["a"].Data)
}

func TestData(t *testing.T) {
	r := play(t, Rules{}, []turn{
		{0, SetData(`1`).By("a", "s"), "a is not in room 42"},
		{0, SetData(`1`), "data 0 false 1"}, // 1
		{0, Join("a", "s"), "join a0"},
		{0, Join("b", "s"), "join b1"},
		{0, SetData(` {"turn" : "a" } `).By("a", "s"), `data a0 false {"turn":"a"}`}, // 4
		{0, SetData(`{"turn":"a"}`).By("b", "s"), ""},
		{0, SetData(`2`).By("b", "other"), "b is in room 42 with another session"},
		{0, SetData(`2`).By("b", "s").Unchanged("", 3), "the data of room 42 has changed since version 3"},
		{0, SetData(`2`).By("b", "s").Unchanged("", 5), "room 42 is at version 4, not yet at 5"},
		{0, SetData(`2`).By("b", "s").Unchanged("f", 4), "room 42 has begun anew"},
		{0, SetData(`2`).By("b", "s").Unchanged("e", 4), "data b0 false 2"}, // 5
		{0, SetData(`null`).By("b", "s"), "data b0 false"},
		{0, SetData(`3`).Unchanged("", 5), "the data of room 42 has changed since version 5"},
		{0, Configure(Settings{Data: "nobody"}), `data must be members (or nothing) or admins, not "nobody"`},
		{0, Configure(Settings{Data: DataAdmins}), "settings 0 false"}, // 7
		{0, SetData(`3`).By("a", "s"), "the settings of room 42 let only admins set its data"},
		{0, SetData(`3`).Unchanged("e", 7), "data 0 false 3"},
		{0, SetMemberData("a", "s", `{"deck":"blue"}`), `member a0 false {"deck":"blue"}`}, // 9
		{0, Ready("a", "s", true), `member a0 true {"deck":"blue"}`},
		{0, Ready("a", "s", true), ""},
		{0, Ready("a", "other", true), "a is in room 42 with another session"},
		{0, SetMemberData("a", "s", `4`).Unchanged("", 8), "the data of a has changed since version 8"},
		{0, SetMemberData("a", "s", `4`).Unchanged("", 9), `member a0 true 4`},
		{0, Join("a", "s2"), ""}, // another session: ready and data stay
		{0, SetMemberData("a", "s2", ``), `member a0 true`},
		{0, Ready("b", "s", true), `member b1 true`},
		{0, Leave("b", "s"), "leave b1 left"},
		{0, Join("b", "s"), "join b1"}, // is not ready any more
	})
	if got := fmt.Sprint(r.Snapshot().Users()); got != "[{a 0 false true } {b 1 false false }]" {
		t.Errorf("the room has %s", got)
	}
}

func TestMessages(t *testing.T) {
	play(t, Rules{}, []turn{
		{0, Join("a", "s"), "join a0"},
		{0, Join("b", "s").At(3), "join b3"},
		{0, Say(Message{Text: "hi"}), "message 0 false  hi"},
		{0, Say(Message{Data: "null", To: []string{"b"}}).By("a", "s"), "message a0 false null  [b"},
		{0, Say(Message{Text: "hi"}).By("b", "s"), "message b3 false  hi"},
		{0, Say(Message{Text: "hi", To: []string{"c"}}).By("b", "s"), "c is not in room 42"},
		{0, Say(Message{Text: "hi"}).By("c", "s"), "c is not in room 42"},
		{0, Say(Message{Text: "hi", Data: "1"}), "text is what is said, or data is: one of both"},
		{0, Say(Message{}), "text is what is said, or data is: one of both"},
		{0, Say(Message{Text: "hi", To: []string{"a", "a"}}), "to names a twice"},
		{0, Say(Message{Text: "hi", To: []string{}}), "to must name 1 to 64 users, not 0"},
		{0, Say(Message{Text: "hi", To: []string{"a", "\x00"}}), "to[1] may not hold the control character U+0000"},
	})
	c := Change{Type: KindMessage, User: "a", Detail: &Detail{To: []string{"b"}}}
	if !c.IsFor("a") || !c.IsFor("b") || c.IsFor("c") {
		t.Error("a message for b reaches others, or not b and who said it")
	}
}

func TestAuthority(t *testing.T) {
	r := play(t, Rules{}, []turn{
		{0, Join("a", "s"), "join a0"},
		{0, Join("b", "s"), "join b1"},
		{0, Kick("c"), "c is not in room 42"},
		{0, Kick("a").Saying("spam"), "leave a0 kicked false  spam"},
		{0, Join("a", "s"), "join a0"},
		{1000, Kick("a").Ban(6000), "leave a0 kicked"},
		{1001, Join("a", "s"), "a is banned from room 42 for another 5 s"},
		{1001, Reserve("r", "c", "a"), "a is banned from room 42 for another 5 s"},
		{6000, Join("a", "s"), "join a0"},
		{7000, Kick("c").Ban(Forever), ""},
		{7001, Join("c", "s"), "c is banned from room 42"},
		{7002, Unban("c"), ""},
		{7003, Join("c", "s"), "join c2"},
		{7003, Kick("c").Ban(Forever + 1), "ban must end after 1970 and before the year 10000"},
		{7003, Kick("c").Saying(strings.Repeat("x", 201)), "text must be at most 200 bytes long, not 201"},
		{7003, Configure(Settings{Keep: true, Capacity: 9}), "settings 0 false"},
		{7004, Shut(), "leave a0 closed, leave b1 closed, leave c2 closed, settings 0 false"},
		{7005, Join("a", "s"), "room 42 is closed"},
		{7006, Reserve("r", "a"), "room 42 is closed"},
	})
	if s, _ := r.Settings(); s.Keep || !s.Closed || s.Capacity != 9 {
		t.Errorf("a room that was closed has %+v", s)
	}
}

// Whoever has missed why a user was taken out learns it from the room, until the user comes back.
// Who lost the place by a failure comes back also into a closed room, but not into one that was shut.
func TestGone(t *testing.T) {
	r := play(t, Rules{}, []turn{
		{0, Join("a", "s"), "join a0"},
		{0, Join("b", "s"), "join b1"},
		{0, Join("c", "s"), "join c2"},
		{0, Kick("a").Saying("spam"), "leave a0 kicked false  spam"},
		{0, ReleaseTo("43", "b"), "leave b1 moved false   [] 43"},
		{0, Join("a", "s").Again(), "a is not in room 42"},
		{0, Configure(Settings{Closed: true}), "settings 0 false"},
		{0, Leave("c", "s").Because(ReasonNode), "leave c2 node"},
		{0, Join("c", "s"), "room 42 is closed"},
		{0, Join("c", "s").Again(), "join c0"},
		{0, Join("b", "s").Following(), "b is not in room 42"},
	})
	if got := fmt.Sprint(r.Gone()); got != "map[a:{4 kicked spam } b:{5 moved  43}]" {
		t.Errorf("the room knows %s", got)
	}
	snapshot := SnapshotEvent(r, nil, nil)
	for user, want := range map[string]Fate{"a": Ended, "b": Ended, "d": Removed} {
		if fate, _ := (Standing{User: user, Session: "s", Node: "n", Epoch: "e", Version: 3}).After(snapshot); fate != want {
			t.Errorf("%s: %v, want %v", user, fate, want)
		}
	}
	if leave, ok := snapshot.LeaveOf("b"); !ok || leave.Reason != ReasonMoved || leave.Target != "43" {
		t.Errorf("b: %+v, %v", leave, ok)
	}
	for _, a := range []Action{Leave("c", "s").Because(ReasonNode), Shut(), Join("c", "s").Again()} {
		if _, err := r.Apply(a, Rules{}, Origin{}); (err != nil) != (a.Kind() == KindJoin) {
			t.Errorf("%v: %v", a.Kind(), err)
		}
	}
	_, _ = r.Apply(Configure(Settings{}), Rules{}, Origin{})
	if _, err := r.Apply(Join("a", "s"), Rules{}, Origin{}); err != nil || len(r.Gone()) != 1 {
		t.Errorf("%v; then the room knows %v", err, r.Gone())
	}
	for i := range 2 * maxGone {
		user := fmt.Sprint("u", i)
		_, _ = r.Apply(Join(user, "s"), Rules{}, Origin{})
		_, _ = r.Apply(Kick(user), Rules{}, Origin{})
		r.Commit("e", "m")
	}
	if _, there := r.Gone()["u0"]; there || len(r.Gone()) != maxGone {
		t.Errorf("the room knows %d who were taken out", len(r.Gone()))
	}
}

// A room that is closed before anybody has joined keeps the capacity of the rules, when it is open again.
func TestAnUnusedRoomIsClosed(t *testing.T) {
	r := play(t, Rules{Seating: Capacity(4)}, []turn{{0, Shut(), "settings 0 false"}})
	if s, _ := r.Settings(); s != (Settings{Capacity: 4, Closed: true}) {
		t.Errorf("it has %+v", s)
	}
}

func TestBansHaveALimit(t *testing.T) {
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	ban := func(user string, until, now int64) error {
		_, err := r.Apply(Kick(user).Ban(until), Rules{}, Origin{At: now})
		r.Commit("e", "m")
		return err
	}
	for i := range MaxBans {
		if err := ban(fmt.Sprint(i), int64(1000+i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := ban("more", 5000, 999); !errors.Is(err, ErrInvalid) || len(r.Bans()) != MaxBans {
		t.Errorf("one more: %v, %d bans", err, len(r.Bans()))
	}
	if err := ban("more", 5000, 1001); err != nil || len(r.Bans()) != MaxBans-1 {
		t.Errorf("one more when two are over: %v, %d bans", err, len(r.Bans()))
	}
}

func TestParties(t *testing.T) {
	many := make([]string, MaxGroup+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	play(t, Rules{Seating: Capacity(4)}, []turn{
		{0, Join("a", "s").At(1), "join a1, settings 0 false"},
		{0, Reserve("r", "b", "c", "d", "e"), "room 42 has 3 of 4 seats free, and not 4"},
		{0, Reserve("r", "b", "b"), "users names b twice"},
		{0, Reserve("r"), "users must name 1 to 64 users, not 0"},
		{0, Reserve("r", many...), "users must name 1 to 64 users, not 65"},
		{0, Reserve("r", "b", "a", "c"), "join b0 away, join c2 away"},
		{0, Reserve("r2", "b", "c"), ""},
		{0, Join("b", "s"), "back b0"},
		{0, Leave("b", "r"), "b is in room 42 with another session"},
		{0, Leave("c", "r").Because(ReasonTimeout), "leave c2 timeout"},
		{0, Release("b", "c"), "c is not in room 42"},
		{0, ReleaseTo("43", "b", "a"), "leave b0 moved false   [] 43, leave a1 moved false   [] 43"},
		{0, Reserve("r", "x", "y", "z", "w"), "join x0 away, join y1 away, join z2 away, join w3 away"},
		{0, Reserve("r", "v"), "room 42 has 0 of 4 seats free, and not 1"},
	})
	// A rule of the game refuses the second of three: none has a seat.
	play(t, Rules{Seating: invited{"a", "c"}}, []turn{{0, Reserve("r", "a", "b", "c"), "b is not invited"}})
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
		{0, Join("a", "s"), "join a0"},
		{0, Ready("a", "s", true), "member a0 true"},
		{0, Join("b", "s"), "join b1"},
		{0, Join("c", "s"), "join c2"},
		{0, Ready("b", "s", true), "member b1 true"},
		{0, Leave("c", "s"), `leave c2 left, data 0 false {"started":true}`},
		{0, Ready("b", "s", false), "member b1 false"},
		{0, Ready("b", "s", true), "member b1 true"},
		{0, SetData(""), "data 0 false"},
		{0, Ready("b", "s", false), "member b1 false"},
		{0, Ready("b", "s", true), `member b1 true, data 0 false {"started":true}`},
	})
	for name, starter := range map[string]starterFunc{
		"no JSON": func(View) (string, bool) { return "{", true },
		"panics":  func(View) (string, bool) { panic("oops") },
	} {
		r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
		if _, err := r.Apply(Join("a", "s"), Rules{Starter: starter}, Origin{}); !errors.Is(err, ErrSeating) || r.Count() != 0 || r.Changed() {
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
		got, err := ParseData("data", text, 100)
		if err != nil {
			got = "!" + err.Error()
		}
		if got != want {
			t.Errorf("%.40s: %s, want %s", text, got, want)
		}
	}
	if _, err := ParseData("data", deep(16), 1000); err != nil {
		t.Error(err)
	}
	if _, err := ParseData("data", deep(17), 1000); err == nil || err.Error() != "data must be at most 32 levels deep, not 34" {
		t.Error(err)
	}
}
