package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Redis begins to refuse writes between the lock and the commit: nothing is written, and
// the caller hears so.
func TestRedisRefusesTheWrite(t *testing.T) {
	rdb := redistest.Start(t).Client()
	rdb.AddHook(redistest.Hook{Before: once(commitScript, func() error {
		return rdb.ConfigSet(t.Context(), "maxmemory", "1").Err()
	})})
	warm(t, rdb)
	c := newCoordinator(t, rdb, Options{})
	events := make(chan *room.Event, 9)
	stop, err := c.Watch(t.Context(), "42", func(e *room.Event) { events <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := c.Do(t.Context(), "42", room.Join("张三", "s")); !errors.Is(err, room.ErrUnavailable) {
		t.Fatalf("join: %v", err)
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	if got := keysOf(t, rdb); len(got) > 0 {
		t.Errorf("%v were written or left over", got)
	}
	if r := mustDo(t, c, "42", room.Join("李四", "s")); describeUsers(r.Users()) != "李四@0" {
		t.Errorf("what was refused is written with the next commit: %s", describeUsers(r.Users()))
	}
	if e := await(t, events, "an event"); e.Version != 1 || len(e.Changes) != 1 {
		t.Errorf("the first event is %+v", e)
	}
}

// The room cannot be read: the lock is given back at once.
func TestUnreadableRoom(t *testing.T) {
	_, rdb := redistest.Mini(t)
	c := newCoordinator(t, rdb, Options{})
	rdb.HSet(t.Context(), "Room:42:Users", "张三", `{"seat":`)
	if _, err := c.Do(t.Context(), "42", room.Join("李四", "s")); !errors.Is(err, room.ErrUnavailable) || !strings.Contains(err.Error(), "张三") {
		t.Errorf("join: %v", err)
	}
	if n := rdb.Exists(t.Context(), "LockRoom:42").Val(); n != 0 {
		t.Error("LockRoom:42 is left over")
	}
}

// Redis has no memory left, and evicts nothing. Joins are refused and write nothing; leaves
// succeed, locks are given back, and the node keeps its lease.
func TestOutOfMemory(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client()
	opts := Options{LockTTL: time.Second, NodeTTL: time.Second}
	c, other := newCoordinator(t, server.Client(), opts), newCoordinator(t, server.Client(), opts)
	for i, node := range []*Coordinator{c, other} {
		for j := range 3 {
			mustDo(t, node, "42", room.Join(fmt.Sprint("user", i, j), "s"))
		}
	}
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	before := c.Node()
	until := rdb.ZScore(t.Context(), nodesKey, before).Val()
	for i, node := range []*Coordinator{c, other} {
		if _, err := node.Do(t.Context(), "42", room.Join("late", "s")); !errors.Is(err, room.ErrUnavailable) {
			t.Errorf("join: %v", err)
		}
		for j := range 2 {
			mustDo(t, node, "42", room.Leave(fmt.Sprint("user", i, j), "s"))
		}
		if _, err := node.Do(t.Context(), "new", room.Join("late", "s")); !errors.Is(err, room.ErrUnavailable) {
			t.Errorf("join of a new room: %v", err)
		}
	}
	if s, err := c.Read(t.Context(), "42"); err != nil || describeUsers(s.Users()) != "user0 2@2 user1 2@5" {
		t.Errorf("the room holds %s, %v", describeUsers(s.Users()), err)
	}
	if left := rdb.Keys(t.Context(), "LockRoom:*").Val(); slices.ContainsFunc(left, func(key string) bool { return !strings.HasSuffix(key, ":Fence") }) {
		t.Errorf("%v are left", left)
	}
	awaitUntil(t, patience, func() string {
		switch {
		case rdb.Exists(t.Context(), nodeKey(before)).Val() == 0:
			t.Fatal("the lease is over")
		case rdb.ZScore(t.Context(), nodesKey, before).Val() == until:
			return "the lease is not prolonged"
		}
		return ""
	})
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	mustDo(t, c, "42", room.Join("late", "s"))
}
