package room

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// An epoch that the next commit ends is not one that an action may expect.
func TestExpect_EpochThatEnds(t *testing.T) {
	r := NewRoom("42", Position{"e", 3, "mark"}, map[string]Member{})
	if _, err := r.Apply(SetData{Data: "1", Expect: ExpectVersion("e", 3)}, Rules{}, Origin{}); err != nil {
		t.Fatal(err)
	}
	r.Revert()
	r.Renew()
	for _, a := range []Action{SetData{Data: "1", Expect: ExpectVersion("e", 3)}, Configure{Settings: Settings{Capacity: 2}, Expect: ExpectVersion("e", 3)}} {
		if _, err := r.Apply(a, Rules{}, Origin{}); !errors.Is(err, ErrConflict) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if _, err := r.Apply(SetData{Data: "1", Expect: ExpectVersion("", 3)}, Rules{}, Origin{}); err != nil {
		t.Errorf("without an epoch: %v", err)
	}
}

func apply(t *testing.T, r *Room, a Action, rules Rules) (seat int, err error) {
	t.Helper()
	a, err = Check(a, rules)
	if err != nil {
		return 0, err
	}
	return r.Apply(a, rules, Origin{Node: "n"})
}

// follow returns the room as another node knows it, which has followed a commit.
func follow(t *testing.T, before, after *Room) *Room {
	t.Helper()
	e := after.Pending(after.Epoch, "n").Event(after.ID)
	if !before.Advance(e) {
		t.Fatal("the event does not follow")
	}
	return before
}

// Two nodes have other rules. Once the room has begun they agree.
func TestNodesWithOtherCapacities(t *testing.T) {
	four, two := Rules{Seating: Capacity(4)}, Rules{Seating: Capacity(2)}
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	other := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	if _, err := apply(t, r, Join{User: "a", Session: "s"}, two); err != nil {
		t.Fatal(err)
	}
	other = follow(t, other, r)
	r.Commit("e", "mark")
	if s, settled := other.Settings(); !settled || s.Capacity != 2 {
		t.Errorf("the other node knows %+v, %v", s, settled)
	}
	if _, err := apply(t, other, Join{User: "b", Session: "s"}, four); err != nil {
		t.Error(err)
	}
	if _, err := apply(t, other, Join{User: "c", Session: "s"}, four); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "2 of 2") {
		t.Errorf("a third member through the node with room for four: %v", err)
	}
	if _, err := apply(t, other, Join{User: "c", Session: "s", Seat: new(3)}, four); !errors.Is(err, ErrFull) {
		t.Errorf("a seat that the room does not have: %v", err)
	}
}

func TestAChangeOfSettings(t *testing.T) {
	rules := Rules{Seating: Capacity(2)}
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	for _, step := range []struct {
		action Action
		want   string // of the error
	}{
		{Join{User: "a", Session: "s"}, ""},
		{Join{User: "b", Session: "s", Seat: new(1)}, ""},
		{Configure{Settings: Settings{Capacity: 1}}, "capacity must not be less than the 2 members, is 1"},
		{Configure{Settings: Settings{Capacity: 3}}, ""},
		{Join{User: "c", Session: "s", Seat: new(2)}, ""},
		{Leave{User: "a", Session: "s"}, ""},
		{Configure{Settings: Settings{Capacity: 2}}, "capacity must be more than 2, on which seat c sits, not 2"},
		{Configure{Settings: Settings{Capacity: 3, Closed: true}}, ""},
		{Join{User: "d", Session: "s"}, "room 42 is closed"},
		{Join{User: "b", Session: "other"}, ""}, // who is in comes back
		{Configure{Settings: Settings{Capacity: -1}}, "capacity must be from 0 (as many as there can be) to 65536, not -1"},
		{Configure{Settings: Settings{Capacity: MaxSeats + 1}}, "capacity must be from 0 (as many as there can be) to 65536, not 65537"},
		{Configure{Settings: Settings{}}, ""},
		{Join{User: "d", Session: "s", Seat: new(1000)}, ""},
	} {
		before, version := describeUsers(r.Snapshot().Users()), r.Version
		_, err := apply(t, r, step.action, rules)
		if got := fmt.Sprint(err); err == nil && step.want != "" || err != nil && got != step.want {
			t.Errorf("%+v: %v, want %q", step.action, err, step.want)
		}
		if err != nil && (r.Changed() || describeUsers(r.Snapshot().Users()) != before) {
			t.Errorf("%v changed the room", err)
		}
		r.Commit("e", "mark")
		if wrote := r.Version > version; wrote != (err == nil) {
			t.Errorf("%+v: version %d after %d", step.action, r.Version, version)
		}
	}
	if _, err := apply(t, r, Configure{Settings: Settings{}}, rules); err != nil || r.Changed() {
		t.Errorf("the same settings again: %v, changed %v", err, r.Changed())
	}
}

// A game's own rule has the seats that it says. The settings can give fewer, and not more.
func TestSettingsBesideAGamesRule(t *testing.T) {
	rules := Rules{Seating: seatingFunc(func(in View, _ string, _ int) (int, error) { return in.LowestFree(), nil })}
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	if _, err := apply(t, r, Configure{Settings: Settings{Capacity: 1}}, rules); err != nil {
		t.Fatal(err)
	}
	if _, err := apply(t, r, Join{User: "a", Session: "s"}, rules); err != nil {
		t.Error(err)
	}
	if _, err := apply(t, r, Join{User: "b", Session: "s"}, rules); !errors.Is(err, ErrFull) {
		t.Errorf("the rule gives seat 1 of 1: %v", err)
	}
	limited := Rules{Seating: struct{ Capacity }{4}}
	if _, err := apply(t, r, Configure{Settings: Settings{Capacity: 5}}, limited); !errors.Is(err, ErrInvalid) {
		t.Errorf("five seats in a game for four: %v", err)
	}
}

func TestAnExpectedVersion(t *testing.T) {
	r := NewRoom("42", Position{"e", 7, ""}, map[string]Member{"a": {Session: "s"}})
	wide := Configure{Settings: Settings{Capacity: 9}, Expect: ExpectVersion("", 6)}
	if _, err := apply(t, r, wide, Rules{}); !errors.Is(err, ErrConflict) || r.Changed() {
		t.Errorf("at version 7 with 6 expected: %v", err)
	}
	wide.Expect = ExpectVersion("", 7)
	if _, err := apply(t, r, wide, Rules{}); err != nil {
		t.Error(err)
	}
	if _, err := apply(t, r, Configure{Settings: Settings{}, Expect: ExpectVersion("", 7)}, Rules{}); !errors.Is(err, ErrConflict) {
		t.Errorf("behind another action of the same commit: %v", err)
	}
}

// Redis and both protocols have one spelling of each setting.
func TestSettings_JSON(t *testing.T) {
	for text, s := range map[string]Settings{
		`{"capacity":0}`: {},
		`{"capacity":4,"closed":true,"keep":true,"data":"admins","watch":"members","labels":{"mode":"fast"},"host":"longest","history":9,"grace":60000,"default":true}`: {4, true, true, DataAdmins, WatchMembers, `{"mode":"fast"}`, HostLongest, 9, NewGrace(60_000), true},
		`{"capacity":0,"grace":0}`: {Grace: NewGrace(0)},
	} {
		written, err := json.Marshal(s)
		var read Settings
		if err := json.Unmarshal([]byte(text), &read); err != nil || read != s {
			t.Errorf("%s is read as %+v, %v", text, read, err)
		}
		if err != nil || string(written) != text {
			t.Errorf("%+v is written as %s, %v", s, written, err)
		}
	}
	named := Settings{Capacity: 2, Data: "members", Watch: "all", Host: "none"}
	read, err := named.check(Rules{})
	if read != (Settings{Capacity: 2}) || err != nil || read.Named() != named {
		t.Errorf("choices that may be left out: %+v, %v", read, err)
	}
	if named.Adapt(); named != read {
		t.Errorf("such choices in Redis: %+v", named)
	}
}

// What a newer node has decided counts as strict here, and nobody sets it.
func TestSettings_UnknownChoice(t *testing.T) {
	var s Settings
	if err := json.Unmarshal([]byte(`{"capacity":0,"data":"friends","watch":"friends","more":1}`), &s); err != nil {
		t.Fatal(err)
	}
	if _, err := (Settings{Data: s.Data}).check(Rules{}); err == nil || err.Error() != "data must be members or admins" {
		t.Error(err)
	}
	if _, err := (Settings{Watch: s.Watch}).check(Rules{}); err == nil || err.Error() != "watch must be all or members" {
		t.Error(err)
	}
	r := NewRoom("42", Position{"e", 1, ""}, map[string]Member{"a": {Session: "s"}})
	r.Restore(State{Settings: &s})
	if _, err := apply(t, r, SetData{User: "a", Session: "s", Data: "1"}, Rules{}); !errors.Is(err, ErrForbidden) {
		t.Error(err)
	}
	if err := r.Snapshot().MayWatch("42", "b", 0); !errors.Is(err, ErrForbidden) {
		t.Error(err)
	}
}
