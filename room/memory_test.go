package room

import (
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

var knownSettings = Settings{Capacity: 2, Data: DataAdmins, Host: HostLongest}

// memoryOf returns what is kept of a room.
func memoryOf(r *Room) *Memory {
	m := new(Memory)
	m.See(r)
	return m
}

// known returns a room in which a, the host, is away, and b of another node is ready and has a hand, as it has settings and data.
func known(t *testing.T, settings Settings) *Room {
	t.Helper()
	r := NewRoom("42", Position{}, make(map[string]Member))
	commitTo(t, r, "old", "n", Join{User: "b", Session: "s"})
	commitTo(t, r, "old", "n", Join{User: "a", Session: "s", Seat: new(1)})
	commitTo(t, r, "old", "n", Configure{Settings: settings})
	commitTo(t, r, "old", "n", Leave{User: "b", Session: "s"})
	commitTo(t, r, "old", "other", Join{User: "b", Session: "s"})
	commitTo(t, r, "old", "other", Ready{User: "b", Session: "s", Value: true})
	commitTo(t, r, "old", "other", SetMemberData{User: "b", Session: "s", Data: "1"})
	commitTo(t, r, "old", "n", Deal{Hands: []Hand{{"b", `"ace"`}}})
	commitTo(t, r, "old", "n", SetData{Data: "2"})
	commitTo(t, r, "old", "n", Detach{User: "a", Session: "s"})
	commitTo(t, r, "old", "n", Kick{User: "rude", Until: Forever})
	return r
}

// clocks say when an epoch is.
var clocks = map[string]int64{"old": 1, "new": 100, "newer": 200}

// commitTo commits an action by a node, and returns the event of that.
func commitTo(t *testing.T, r *Room, epoch, node string, a Action) *Event {
	t.Helper()
	if _, err := r.Apply(a, Rules{Seating: Capacity(8)}, Origin{Node: node, At: clocks[epoch]}); err != nil {
		t.Fatal(err)
	}
	return commitPending(r, epoch, node)
}

// commitPending commits what was applied by a node.
func commitPending(r *Room, epoch, node string) *Event {
	c := r.Pending(epoch, node)
	c.CommitID = epoch + string(rune('a'+c.Version))
	c.Updates = append([]Update(nil), c.Updates...)
	r.Commit(epoch, c.CommitID)
	return c.Event("42")
}

// begun returns a room that somebody has begun who did not know it, or that nobody has.
func begun(t *testing.T, by ...Action) *Room {
	t.Helper()
	r := NewRoom("42", Position{}, make(map[string]Member))
	for _, a := range by {
		commitTo(t, r, "new", "third", a)
	}
	return r
}

// restarted returns the room as Redis has it after it was restarted.
func restarted(r *Room) *Room {
	next := memoryOf(r).room
	next.Renew()
	return next
}

// What Redis has lost comes back as it was, to all who follow the room. What others have begun meanwhile stays.
func TestMemory_Recall(t *testing.T) {
	other := Settings{Capacity: 3, Labels: `{"mode":"x"}`}
	was := known(t, knownSettings)
	older := restarted(was)
	commitTo(t, older, "old", "n", Leave{User: "b", Session: "s"})
	commitTo(t, older, "old", "n", Join{User: "gone", Session: "s"})
	commitTo(t, older, "old", "n", Kick{User: "unbanned", Until: Forever})
	older.Position, older.CommitID = Position{Epoch: "old", Version: was.Version - 1}, "older"
	for name, test := range map[string]struct {
		now   *Room
		users map[string]bool // whether they are as they were; nil for all and nobody else
		want  Settings
	}{
		"nothing is there":                {begun(t), nil, knownSettings},
		"an older copy is there":          {restarted(older), nil, knownSettings},
		"it is there":                     {restarted(was), nil, knownSettings},
		"a part is there":                 {NewRoom("42", was.Position, map[string]Member{}), nil, knownSettings},
		"others have begun it":            {begun(t, Join{User: "new", Session: "s"}), map[string]bool{"new": false, "a": true}, knownSettings},
		"others are on another seat":      {begun(t, Join{User: "new", Session: "s", Seat: new(1)}), map[string]bool{"new": false, "b": true}, knownSettings},
		"others have configured it":       {begun(t, Configure{Settings: other}), map[string]bool{"a": true, "b": true}, other},
		"others have begun it by match":   {begun(t, Join{User: "new", Session: "s", Begin: &other}), map[string]bool{"new": false, "a": true}, Settings{Capacity: 3, Labels: other.Labels, Default: true}},
		"a member has been let in":        {begun(t, Join{User: "b", Session: "later"}), map[string]bool{"a": true, "b": false}, knownSettings},
		"others have thrown a member out": {begun(t, Join{User: "b", Session: "later"}, Kick{User: "b"}), map[string]bool{"a": true}, knownSettings},
		"others have banned a member":     {begun(t, Kick{User: "b", Until: 9}), map[string]bool{"a": true}, knownSettings},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := memoryOf(was), test.now
			if name == "a part is there" {
				now.state = was.state
				now.Renew()
			}
			follower := memoryOf(now)
			now.Recall(m)
			if now.Revert(); now.Changed() {
				t.Error("it can not be taken back")
			}
			if now.Epoch == was.Epoch {
				now.Renew()
			}
			now.Recall(m)
			changed := commitPending(now, "newer", "restorer")
			for user, m := range now.Members() {
				if node, shown := changed.NodeOf(user); shown && node != m.Node {
					t.Errorf("a session of %s, which is of node %s, is told that it is of %s", user, m.Node, node)
				}
			}
			if !follower.room.Advance(&Event{Room: "42", Epoch: follower.room.Epoch, Version: changed.Version, From: follower.room.Version, Commit: changed.Commit}) {
				t.Error("nobody can follow that")
			}
			if got, _ := now.Settings(); got != test.want || now.State().Bans["rude"] != Forever || test.users == nil && len(now.State().Bans) > 1 {
				t.Errorf("it has %+v, and bans %v", got, now.State().Bans)
			}
			for user, m := range was.Members() {
				is, in := now.Member(user)
				restored, listed := test.users[user]
				if want := test.users == nil || restored; want != (in && same(is, m)) || test.users != nil && listed != in {
					t.Errorf("%s is %+v, %v, and was %+v", user, is, in, m)
				}
			}
			if test.users == nil && (now.Count() != was.Count() || now.State().Host != "a" || now.State().Data.String() != "2") {
				t.Errorf("it has %d members, the host %q and data %q", now.Count(), now.State().Host, now.State().Data)
			}
			if is, in := now.Member("a"); in && same(is, mustMember(t, was, "a")) && test.want.Host != "" && now.State().Host != "a" {
				t.Errorf("the host is %q", now.State().Host)
			}
			if differs := follower.room.Differences(now); differs != "" {
				t.Errorf("who follows it knows something else: %s", differs)
			}
			if now.Version <= was.Version || m.Outlives(now) {
				t.Errorf("version %d would come back again", now.Version)
			}
		})
	}
}

// An earlier copy may still say that a user was taken out of the room, who has come back since. Only what happened after
// that keeps the user out.
func TestMemory_RecallsWhoCameBack(t *testing.T) {
	users, b := []string{"b"}, Join{User: "b", Session: "s"}
	for name, test := range map[string]struct{ out, back []Action }{
		"moved":  {[]Action{Release{Users: users, Target: "43"}}, []Action{b}},
		"seated": {[]Action{Release{Users: users, Target: "43"}}, []Action{Reserve{Users: users, Session: "r"}}},
		"kicked": {[]Action{Kick{User: "b"}}, []Action{b}},
		"closed": {[]Action{Close{}}, []Action{Configure{}, b}},
	} {
		for _, again := range [][]Action{nil, {Configure{}, b, Kick{User: "b"}}, {Configure{}, b, Release{Users: users, Target: "44"}}} {
			r := begun(t, append([]Action{b}, test.out...)...)
			old := restarted(r)
			for _, a := range test.back {
				commitTo(t, r, "new", "n", a)
			}
			for range 9 { // so what others do with the old copy has lower versions
				commitTo(t, r, "new", "n", Say{Text: "hello"})
			}
			commitTo(t, old, "newer", "third", SetData{Data: "1"})
			for _, a := range again {
				commitTo(t, old, "newer", "third", a)
			}
			old.Recall(memoryOf(r))
			if _, in := old.Member("b"); in != (again == nil) {
				t.Errorf("%s, and %d actions later: b is back: %v", name, len(again), in)
			}
		}
	}
}

func mustMember(t *testing.T, r *Room, user string) Member {
	t.Helper()
	m, in := r.Member(user)
	if !in {
		t.Fatalf("%s is not there", user)
	}
	return m
}

// same reports whether two members are the same, whatever the versions of their data are.
func same(a, b Member) bool {
	data, private := a.Data.String() == b.Data.String(), a.Private.String() == b.Private.String()
	a.Data, a.Private, b.Data, b.Private = nil, nil, nil, nil
	return data && private && a == b
}

// Who asks for the room that was, finds it before it is committed, and no version of before is expected any more.
func TestMemory_Begun(t *testing.T) {
	m, now := memoryOf(known(t, knownSettings)), begun(t)
	now.Recall(m)
	for _, a := range []Action{Join{User: "a", Session: "s", Existing: true}, Txn{Actions: []Action{SetData{Data: "3"}}}} {
		if _, err := now.Apply(a, Rules{}, Origin{Node: "n"}); err != nil {
			t.Errorf("%T: %v", a, err)
		}
	}
	now.Revert()
	now.Recall(m)
	if _, err := now.Apply(SetData{Data: "3", Expect: ExpectVersion("", m.room.Version)}, Rules{}, Origin{Node: "n"}); err == nil {
		t.Error("the data is set by a version of the epoch before")
	}
}

// What a room began with, other nodes learn with its return, whatever their own rules are.
func TestMemory_Begin(t *testing.T) {
	for name, had := range map[string]Settings{"by a join": {Capacity: 1, Default: true}, "by a match": {Capacity: 1, Data: DataAdmins, Default: true}} {
		t.Run(name, func(t *testing.T) {
			now := begun(t)
			now.Recall(memoryOf(begun(t, Join{User: "a", Session: "s", Begin: &had})))
			if got, _ := now.Settings(); got != had {
				t.Errorf("it has %+v instead of %+v", got, had)
			}
		})
	}
}

// A memory goes on with the room's events, and does not go back. Of a room of which it misses something it knows nothing.
func TestMemory_Follows(t *testing.T) {
	nothing := begun(t)
	r := begun(t, Join{User: "a", Session: "s"})
	m, ahead := memoryOf(r), memoryOf(r)
	before := memoryOf(r).room
	left := commitTo(t, r, "new", "n", Configure{Settings: Settings{Keep: true}})
	for range 2 { // the second time it knows that already
		if !m.Follow(left) || !m.Outlives(nothing) {
			t.Error("it does not know the room any more")
		}
	}
	m.See(before)
	m.See(nothing)
	if kept, _ := m.room.Settings(); !kept.Keep {
		t.Errorf("it knows an earlier room: %+v", kept)
	}
	left = commitTo(t, r, "new", "n", Leave{User: "a", Session: "s"})
	if !m.Follow(left) || !m.Outlives(nothing) {
		t.Error("a room that is to be kept is forgotten")
	}
	if left = commitTo(t, r, "new", "n", Configure{}); !m.Follow(left) || m.Outlives(nothing) {
		t.Error("a room that everybody has left would come back")
	}
	if ahead.Follow(left) || ahead.Outlives(nothing) {
		t.Error("who has missed something knows the room")
	}
	if none := new(Memory); none.Follow(left) || none.Outlives(nothing) {
		t.Error("who knew nothing knows a part")
	}
	later := memoryOf(before)
	if later.Follow(&Event{Room: "42", Epoch: "newer", Version: 9, From: 8, Commit: left.Commit}) {
		t.Error("who has missed the epoch knows the room")
	}
}

// A field that is added to a member comes back, and makes a difference.
func TestMember_KeepsEachField(t *testing.T) {
	fields := reflect.TypeFor[Member]()
	for i := range fields.NumField() {
		var m, back Member
		switch field := reflect.ValueOf(&m).Elem().Field(i); v := field.Addr().Interface().(type) {
		case *bool:
			*v = true
		case *int:
			*v = 1
		case *int64:
			*v = 1
		case *string:
			*v = "x"
		case **Value:
			*v = &Value{7, jsontext.Value(`"x"`)}
		case **Agreement:
			*v = &Agreement{Labels: `{"mode":"ranked"}`}
		default:
			t.Fatalf("%T has no value here", v)
		}
		for _, row := range memberData {
			if all := row.all(m); all != nil {
				back = row.set(back, *all, 7)
			}
		}
		name := fields.Field(i).Name
		if m.equals(Member{}) {
			t.Errorf("equals does not look at %s", name)
		}
		if comesWithJoin := slices.Contains([]string{"Seat", "Session", "Node", "At"}, name); !comesWithJoin && !m.equals(back) {
			t.Errorf("no row of kept brings %s back: %+v", name, back)
		}
	}
}
