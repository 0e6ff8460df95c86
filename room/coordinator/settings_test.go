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
func TestSettings_OtherCapacities(t *testing.T) {
	_, rdb := redistest.Mini(t)
	capacities := map[string]int{"four": 4, "two": 2, "any": 0}
	nodes := map[string]*Coordinator{}
	for name, n := range capacities {
		nodes[name] = newCoordinator(t, rdb, Options{Rules: room.Rules{Seating: room.Capacity(n)}})
	}
	for first, n := range capacities {
		mustDo(t, nodes[first], first, room.Join{User: "0", Session: "s"})
		for other, c := range nodes {
			for i := range 5 { // alternately with the others, from their copies
				user := other + string(rune('0'+i))
				_, err := c.Do(t.Context(), first, room.Join{User: user, Session: "s"})
				redistest.FatalIf(t, err != nil && !errors.Is(err, room.ErrFull), "%v", err)
			}
		}
		snapshot, err := nodes["any"].Read(t.Context(), first)
		if want := min(n, 16); err != nil || snapshot.Settings.Capacity != n || n > 0 && snapshot.Count() != want || n == 0 && snapshot.Count() != 16 {
			t.Errorf("the room that %q began: %+v with %d members, %v", first, snapshot.Settings, snapshot.Count(), err)
		}
	}
}

// Redis forgets an empty room after Idle, unless it is to be kept.
func TestSettings_Keep(t *testing.T) {
	c, rdb := onMini(t, Options{Idle: time.Minute})
	ttl := func() time.Duration { return rdb.PTTL(t.Context(), "Room:42:Meta").Val() }
	mustDo(t, c, "42", room.Configure{Settings: room.Settings{Keep: true, Capacity: 3}})
	for _, step := range []struct {
		action room.Action
		kept   bool
	}{
		{room.Join{User: "a", Session: "s"}, true},
		{room.Leave{User: "a", Session: "s"}, true},
		{room.Configure{Settings: room.Settings{Capacity: 3}}, false},
		{room.Configure{Settings: room.Settings{Capacity: 3, Keep: true}}, true},
		{room.Configure{Settings: room.Settings{Capacity: 3, Closed: true}}, false},
		{room.Configure{Settings: room.Settings{Capacity: 3}}, false},
		{room.Join{User: "a", Session: "s"}, true},
		{room.Leave{User: "a", Session: "s"}, false},
	} {
		mustDo(t, c, "42", step.action)
		if kept := ttl() < 0; kept != step.kept {
			t.Errorf("after %+v the room expires in %v", step.action, ttl())
		}
	}
	redistest.Equal(t, "Meta has", rdb.HGet(t.Context(), "Room:42:Meta", "settings").Val(), `{"capacity":3}`)
}

// Settings that nobody can read stop the room's actions, and the error names the field.
func TestSettings_Foreign(t *testing.T) {
	_, rdb := redistest.Mini(t)
	rdb.HSet(t.Context(), "Room:42:Meta", "epoch", "e", "version", 1, "mark", "m", "members", 0, "settings", `{"capacity":"many"}`)
	c := newCoordinator(t, rdb, Options{})
	_, err := c.Do(t.Context(), "42", room.Join{User: "a", Session: "s"})
	if !errors.Is(err, room.ErrUnavailable) || !strings.Contains(err.Error(), "settings") || !strings.Contains(err.Error(), "many") {
		t.Errorf("join: %v", err)
	}
}

// A commit that changes settings and members in one batch writes both, with a thousand members.
func TestSettings_ManyMembers(t *testing.T) {
	t.Parallel()
	c, rdb := onMini(t, Options{MaxBatch: 4096})
	var actions []room.Action
	for i := range 1500 {
		actions = append(actions, room.Join{User: strings.Repeat("x", i%5) + string(rune(0x4e00+i)), Session: "s"})
	}
	for i := range 1200 {
		actions = append(actions, room.Leave{User: strings.Repeat("x", i%5) + string(rune(0x4e00+i)), Session: "s"})
	}
	actions = append(actions, room.Configure{Settings: room.Settings{Capacity: 2000}})
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
