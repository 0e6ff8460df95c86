package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// What does not last is no difference.
func TestAMomentIsNoDifference(t *testing.T) {
	t.Parallel() // it mostly waits
	rdb := redistest.Start(t).Client()
	c := checking(t, rdb)
	watchedRoom(t, c, "42")
	c.awaitChecks(t, 1)
	stop := findNothing(t, []*Coordinator{c})
	defer stop()
	for range 2 {
		if err := rdb.HSet(t.Context(), "Room:42:Meta", "version", 2).Err(); err != nil {
			t.Fatal(err)
		}
		c.awaitChecks(t, 1)
		if err := rdb.HSet(t.Context(), "Room:42:Meta", "version", 4).Err(); err != nil {
			t.Fatal(err)
		}
		c.awaitChecks(t, 2)
	}
}

// Nothing stays watched because it is checked, and what was found goes with the room.
func TestARoomThatNobodyWatchesIsForgotten(t *testing.T) {
	t.Parallel() // it mostly waits
	rdb := redistest.Start(t).Client()
	c := checking(t, rdb)
	stop, err := c.Watch(soon(t), "42", func(*room.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, newCoordinator(t, rdb, Options{}), "42", room.Join("a", "s"))
	c.awaitChecks(t, 2)
	if err := rdb.HSet(t.Context(), "Room:42:Users", "x", `{"seat":0}`).Err(); err != nil {
		t.Fatal(err)
	}
	c.awaitDifference(t, CheckSeats, "42", "on seat 0")
	stop()
	if left := c.feeds.watched(); len(left) > 0 {
		t.Errorf("still watched: %v", left)
	}
	c.awaitDifference(t, CheckSeats, "42", "")
	stopAgain, err := c.Watch(soon(t), "42", func(*room.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stopAgain()
	c.awaitDifference(t, CheckSeats, "42", "on seat 0")
}

// joined returns the event of a commit.
func joined(epoch string, version uint64, user string) *room.Event {
	return (&room.Commit{
		Position: room.Position{Epoch: epoch, Version: version, Mark: fmt.Sprint("m", version)}, Node: "n",
		Updates: []room.Update{{Type: room.KindJoin, User: user, Seat: int(version), Session: "s"}},
	}).Event("42")
}

// A shadow holds events while its room is read, and follows them to the version that was read.
func TestShadow(t *testing.T) {
	read := func(version uint64, users ...string) *room.Room {
		members := make(map[string]room.Member)
		for i, user := range users {
			members[user] = room.Member{Seat: i + 1, Session: "s", Node: "n"}
		}
		return room.NewRoom("42", room.Position{Epoch: "e", Version: version, Mark: fmt.Sprint("m", version)}, members)
	}
	s := &shadow{news: make(chan struct{}, 1)}
	meet := func(is *room.Room, version uint64, order room.Order, differences string) {
		t.Helper()
		at, got, found, known := s.meet(t.Context(), is)
		if !known || at.Version != version || got != order || !strings.Contains(found, differences) || differences == "" && found != "" {
			t.Errorf("the shadow is at %+v, order %v, %q, %v", at, got, found, known)
		}
	}
	resets := s.hold()
	s.put(joined("e", 1, "a")) // before what is read
	s.put(joined("e", 3, "c"))
	s.adopt(read(2, "a", "b"), resets)
	s.release()
	s.hold()
	s.put(joined("e", 4, "d"))
	meet(read(3, "a", "b", "c"), 3, room.Same, "")
	meet(read(3, "a", "b"), 3, room.Same, `"c" is missing`)
	meet(read(5), 4, room.Later, "")
	meet(read(2), 4, room.Earlier, "")
	s.release()
	if missed := s.missed(); missed != "" {
		t.Errorf("nothing is missing: %s", missed)
	}

	s.put(joined("e", 6, "f"))
	if missed := s.missed(); missed != "the event of version 6 came after that of version 4" || s.missed() != "" {
		t.Errorf("version 5 is missing: %q", missed)
	}
	resets = s.hold()
	s.put(room.SnapshotEvent(read(9), nil, nil))
	s.adopt(read(8), resets) // was read before
	if _, _, _, known := s.meet(t.Context(), read(9)); known {
		t.Error("what a snapshot has overtaken was adopted")
	}
	s.release()
	resets = s.hold()
	s.adopt(read(10), resets)
	for version := range uint64(maxShadowHeld) {
		s.put(joined("e", 11+version, "a"))
	}
	meet(read(11), 11, room.Same, `"a" is missing`)
	s.put(joined("e", 9999, "a"))
	s.put(joined("e", 9999, "a"))
	if _, _, _, known := s.meet(t.Context(), read(12)); known || len(s.held) > 1 {
		t.Errorf("%d events are held", len(s.held))
	}
}

// Shadows are bounded; a room takes the place of another.
func TestShadowsAreBounded(t *testing.T) {
	c := newCoordinator(t, redistest.Start(t).Client(), Options{})
	v := newInvariants(c)
	for i := range 5 {
		id := fmt.Sprint(i)
		stop, err := c.Watch(soon(t), id, func(*room.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		v.resize(v.shadowOf(id), maxShadows/2)
		if len(v.shadows) > 2 || v.shadows[id] == nil || v.size > maxShadows {
			t.Errorf("%d shadows, of size %d", len(v.shadows), v.size)
		}
	}
	if v.shadowOf("nobody watches it") != nil {
		t.Error("a room that nobody watches has a shadow")
	}
	for id := range v.shadows {
		v.drop(id)
	}
	if v.size != 0 {
		t.Errorf("no shadow has size %d", v.size)
	}
}
