package room

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func apply(t *testing.T, r *Room, a Action, rules Rules) (seat int, err error) {
	t.Helper()
	a, err = a.Check(rules)
	if err != nil {
		return 0, err
	}
	return r.Apply(a, rules, Origin{Node: "n"})
}

// follow returns the room as another node knows it, which has followed a commit.
func follow(t *testing.T, before, after *Room) *Room {
	t.Helper()
	e := after.Pending(after.Epoch, "mark", "n").Event(after.ID)
	if !before.Follow(e) {
		t.Fatal("the event does not follow")
	}
	return before
}

// Two nodes have other rules. Once the room has begun they agree.
func TestNodesWithOtherCapacities(t *testing.T) {
	four, two := Rules{Seating: Capacity(4)}, Rules{Seating: Capacity(2)}
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	other := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	if _, err := apply(t, r, Join("a", "s"), two); err != nil {
		t.Fatal(err)
	}
	other = follow(t, other, r)
	r.Commit("e", "mark")
	if s, settled := other.Settings(); !settled || s.Capacity != 2 {
		t.Errorf("the other node knows %+v, %v", s, settled)
	}
	if _, err := apply(t, other, Join("b", "s"), four); err != nil {
		t.Error(err)
	}
	if _, err := apply(t, other, Join("c", "s"), four); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "2 of 2") {
		t.Errorf("a third member through the node with room for four: %v", err)
	}
	if _, err := apply(t, other, Join("c", "s").At(3), four); !errors.Is(err, ErrFull) {
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
		{Join("a", "s"), ""},
		{Join("b", "s").At(1), ""},
		{Configure(Settings{Capacity: 1}), "capacity must not be less than the 2 members, is 1"},
		{Configure(Settings{Capacity: 3}), ""},
		{Join("c", "s").At(2), ""},
		{Leave("a", "s"), ""},
		{Configure(Settings{Capacity: 2}), "capacity must be more than 2, on which seat c sits, not 2"},
		{Configure(Settings{Capacity: 3, Closed: true}), ""},
		{Join("d", "s"), "room 42 is closed"},
		{Join("b", "other"), ""}, // who is in comes back
		{Configure(Settings{Capacity: -1}), "capacity must be from 0 (as many as there can be) to 65536, not -1"},
		{Configure(Settings{Capacity: MaxSeats + 1}), "capacity must be from 0 (as many as there can be) to 65536, not 65537"},
		{Configure(Settings{}), ""},
		{Join("d", "s").At(1000), ""},
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
	if _, err := apply(t, r, Configure(Settings{}), rules); err != nil || r.Changed() {
		t.Errorf("the same settings again: %v, changed %v", err, r.Changed())
	}
}

// A game's own rule has the seats that it says. The settings can give fewer, and not more.
func TestSettingsBesideAGamesRule(t *testing.T) {
	rules := Rules{Seating: seatingFunc(func(in View, _ string, _ int) (int, error) { return in.LowestFree(), nil })}
	r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
	if _, err := apply(t, r, Configure(Settings{Capacity: 1}), rules); err != nil {
		t.Fatal(err)
	}
	if _, err := apply(t, r, Join("a", "s"), rules); err != nil {
		t.Error(err)
	}
	if _, err := apply(t, r, Join("b", "s"), rules); !errors.Is(err, ErrFull) {
		t.Errorf("the rule gives seat 1 of 1: %v", err)
	}
	limited := Rules{Seating: struct{ Capacity }{4}}
	if _, err := apply(t, r, Configure(Settings{Capacity: 5}), limited); !errors.Is(err, ErrInvalid) {
		t.Errorf("five seats in a game for four: %v", err)
	}
}

func TestAnExpectedVersion(t *testing.T) {
	r := NewRoom("42", Position{"e", 7, ""}, map[string]Member{"a": {Session: "s"}})
	wide := Configure(Settings{Capacity: 9})
	if _, err := apply(t, r, wide.IfVersion("", 6), Rules{}); !errors.Is(err, ErrConflict) || r.Changed() {
		t.Errorf("at version 7 with 6 expected: %v", err)
	}
	if _, err := apply(t, r, wide.IfVersion("", 7), Rules{}); err != nil {
		t.Error(err)
	}
	if _, err := apply(t, r, Configure(Settings{}).IfVersion("", 7), Rules{}); !errors.Is(err, ErrConflict) {
		t.Errorf("behind another action of the same commit: %v", err)
	}
}

// Whatever is applied and reverted or committed, a node that follows the commits knows the same
// settings, and no room has more members than seats.
func TestFollowersKnowTheSettings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := []Rules{{Seating: Capacity(3)}, {Seating: Capacity(5)}, {}}
		r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
		other := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			rules := rapid.SampledFrom(nodes).Draw(rt, "node")
			user := fmt.Sprint("u", rapid.IntRange(0, 7).Draw(rt, "user"))
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				_, _ = apply(t, r, Leave(user, "s"), rules)
			case 1:
				_, _ = apply(t, r, Configure(Settings{Capacity: rapid.IntRange(0, 6).Draw(rt, "capacity"), Closed: rapid.Bool().Draw(rt, "closed")}), rules)
			case 2:
				r.Revert()
			case 3:
				if r.Changed() {
					other = follow(t, other, r)
					r.Commit("e", "mark")
				}
			default:
				_, _ = apply(t, r, Join(user, "s"), rules)
			}
			if s, settled := r.Settings(); settled && r.Count() > s.Seats() {
				rt.Fatalf("%d members, %+v", r.Count(), s)
			}
		}
		r.Revert()
		if r.Snapshot().Settings != other.Snapshot().Settings || describeUsers(r.Snapshot().Users()) != describeUsers(other.Snapshot().Users()) {
			rt.Fatalf("%+v, the follower has %+v", r.Snapshot(), other.Snapshot())
		}
	})
}
