package coordinator

import (
	"errors"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Nodes with other capacities agree about every room: the one that begins a room decides.
func TestNodesWithOtherCapacities(t *testing.T) {
	_, rdb := redistest.Mini(t)
	capacities := map[string]int{"four": 4, "two": 2, "any": 0}
	nodes := map[string]*Coordinator{}
	for name, n := range capacities {
		nodes[name] = newCoordinator(t, rdb, Options{Rules: room.Rules{Seating: room.Capacity(n)}})
	}
	for first, n := range capacities {
		mustDo(t, nodes[first], first, room.Join("0", "s"))
		for other, c := range nodes {
			for i := range 5 { // alternately with the others, from their copies
				user := other + string(rune('0'+i))
				_, err := c.Do(t.Context(), first, room.Join(user, "s"))
				if err != nil && !errors.Is(err, room.ErrFull) {
					t.Fatal(err)
				}
			}
		}
		snapshot, err := nodes["any"].Read(t.Context(), first)
		if want := min(n, 16); err != nil || snapshot.Settings.Capacity != n || n > 0 && snapshot.Count() != want || n == 0 && snapshot.Count() != 16 {
			t.Errorf("the room that %q began: %+v with %d members, %v", first, snapshot.Settings, snapshot.Count(), err)
		}
	}
}

// Settings are changed through one node, and bind the others at once, with a copy of the room or
// without one.
func TestSettingsBindEveryNode(t *testing.T) {
	server := redistest.Start(t)
	first := newCoordinator(t, server.Client(), Options{})
	second := newCoordinator(t, server.Client(), Options{})
	mustDo(t, first, "42", room.Join("a", "s"))
	mustDo(t, second, "42", room.Join("b", "s"))
	result := mustDo(t, first, "42", room.Configure(room.Settings{Capacity: 2}))
	if result.Settings.Capacity != 2 {
		t.Errorf("the result has %+v", result.Settings)
	}
	for name, c := range map[string]*Coordinator{"one that follows": second, "a new one": newCoordinator(t, server.Client(), Options{})} {
		if _, err := c.Do(t.Context(), "42", room.Join("c", "s")); !errors.Is(err, room.ErrFull) {
			t.Errorf("a third member through %s: %v", name, err)
		}
		if _, err := c.Do(t.Context(), "42", room.Configure(room.Settings{Capacity: 1})); !errors.Is(err, room.ErrInvalid) {
			t.Errorf("one seat for two members through %s: %v", name, err)
		}
		if _, err := c.Do(t.Context(), "42", room.Configure(room.Settings{}).IfVersion("", result.Version-1)); !errors.Is(err, room.ErrConflict) {
			t.Errorf("an earlier version through %s: %v", name, err)
		}
	}
	mustDo(t, second, "42", room.Configure(room.Settings{Closed: true}))
	if _, err := first.Do(t.Context(), "42", room.Join("c", "s")); !errors.Is(err, room.ErrRoomClosed) {
		t.Errorf("a closed room: %v", err)
	}
	mustDo(t, first, "42", room.Join("b", "another")) // a member comes back
}

// Redis forgets an empty room after Idle, unless it is to be kept.
func TestAKeptRoom(t *testing.T) {
	_, rdb := redistest.Mini(t)
	c := newCoordinator(t, rdb, Options{Idle: time.Minute})
	ttl := func() time.Duration { return rdb.PTTL(t.Context(), "Room:42:Meta").Val() }
	mustDo(t, c, "42", room.Configure(room.Settings{Keep: true, Capacity: 3}))
	for _, step := range []struct {
		action room.Action
		kept   bool
	}{
		{room.Join("a", "s"), true},
		{room.Leave("a", "s"), true},
		{room.Configure(room.Settings{Capacity: 3}), false},
		{room.Configure(room.Settings{Capacity: 3, Keep: true}), true},
		{room.Configure(room.Settings{Capacity: 3, Closed: true}), false},
		{room.Configure(room.Settings{Capacity: 3}), false},
		{room.Join("a", "s"), true},
		{room.Leave("a", "s"), false},
	} {
		mustDo(t, c, "42", step.action)
		if kept := ttl() < 0; kept != step.kept {
			t.Errorf("after %+v the room expires in %v", step.action, ttl())
		}
	}
	if settings := rdb.HGet(t.Context(), "Room:42:Meta", "settings").Val(); settings != `{"capacity":3}` {
		t.Errorf("Meta has %s", settings)
	}
}

// Settings that nobody can read stop the room's actions, and the error names the field.
func TestForeignSettings(t *testing.T) {
	_, rdb := redistest.Mini(t)
	rdb.HSet(t.Context(), "Room:42:Meta", "epoch", "e", "version", 1, "mark", "m", "members", 0, "settings", `{"capacity":"many"}`)
	c := newCoordinator(t, rdb, Options{})
	_, err := c.Do(t.Context(), "42", room.Join("a", "s"))
	if !errors.Is(err, room.ErrUnavailable) || !strings.Contains(err.Error(), "settings") || !strings.Contains(err.Error(), "many") {
		t.Errorf("join: %v", err)
	}
}

// A commit that changes settings and members in one batch writes both, with a thousand members.
func TestSettingsBesideManyMembers(t *testing.T) {
	_, rdb := redistest.Mini(t)
	c := newCoordinator(t, rdb, Options{MaxBatch: 4096})
	var actions []room.Action
	for i := range 1500 {
		actions = append(actions, room.Join(strings.Repeat("x", i%5)+string(rune(0x4e00+i)), "s"))
	}
	for i := range 1200 {
		actions = append(actions, room.Leave(strings.Repeat("x", i%5)+string(rune(0x4e00+i)), "s"))
	}
	actions = append(actions, room.Configure(room.Settings{Capacity: 2000}))
	rdb.Set(t.Context(), "LockRoom:42", "another's", 100*time.Millisecond) // so that they share a hold
	done := make(chan error, len(actions))
	for _, a := range actions {
		go func() { done <- second(c.Do(t.Context(), "42", a)) }()
	}
	for range actions {
		<-done
	}
	snapshot, err := newCoordinator(t, rdb, Options{}).Read(t.Context(), "42")
	if err != nil || snapshot.Settings.Capacity != 2000 || int64(snapshot.Count()) != rdb.HLen(t.Context(), "Room:42:Users").Val() || snapshot.Count() < 300 {
		t.Errorf("%+v with %d members, %v", snapshot.Settings, snapshot.Count(), err)
	}
}
