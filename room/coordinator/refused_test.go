package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Redis begins to refuse writes between the lock and the commit: nothing is written, and
// the caller hears so.
func TestRedis_RefusesTheWrite(t *testing.T) {
	rdb := redistest.Start(t).Client()
	rdb.AddHook(redistest.Hook{Before: once(store.CommitScript, func() error {
		return rdb.ConfigSet(t.Context(), "maxmemory", "1").Err()
	})})
	warm(t, rdb)
	c := newCoordinator(t, rdb, Options{})
	events := make(chan *room.Event, 9)
	stop, err := c.Watch(t.Context(), "42", func(e *room.Event) { events <- e })
	redistest.OK(t, err)
	defer stop()
	expectRefused(t, "join", c, "42", room.Join{User: "张三", Session: "s"}, room.ErrUnavailable)
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	got := keysOf(t, rdb)
	redistest.ErrorIf(t, len(got) > 0, "%v were written or left over", got)
	expectRoom(t, mustDo(t, c, "42", room.Join{User: "李四", Session: "s"}).Snapshot, "李四@0", 0)
	if e := redistest.Receive(t, events, "an event"); e.Version != 1 || len(e.Changes) != 1 {
		t.Errorf("the first event is %+v", e)
	}
}

// Redis has no memory for a commit of joins and leaves: the leaves succeed all the same.
func TestRedis_OutOfMemoryForABatch(t *testing.T) {
	rdb := redistest.Start(t, "--maxmemory-policy", "noeviction").Client()
	c := newCoordinator(t, rdb, Options{})
	for i := range 4 {
		mustDo(t, c, "42", room.Join{User: fmt.Sprint("leaves", i), Session: "s"})
	}
	rdb.Set(t.Context(), "LockRoom:42", "another's", 200*time.Millisecond) // so that all meet in one commit
	redistest.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { mustDo(t, c, "42", room.Leave{User: fmt.Sprint("leaves", i), Session: "s"}) })
		wg.Go(func() {
			expectRefused(t, "join", c, "42", room.Join{User: fmt.Sprint("joins", i), Session: "s"}, room.ErrUnavailable)
		})
	}
	wg.Wait()
	s, err := c.Read(t.Context(), "42")
	redistest.ErrorIf(t, err != nil || s.Count() != 0, "the room holds %s, %v", describeUsers(s.Users()), err)
}

// Redis has no memory left, and evicts nothing. Joins are refused and write nothing; leaves
// succeed, locks are released, and the node keeps its lease.
func TestRedis_OutOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client()
	opts := Options{LockTTL: time.Second, NodeTTL: time.Second}
	c, other := newCoordinator(t, server.Client(), opts), newCoordinator(t, server.Client(), opts)
	for i, node := range []*Coordinator{c, other} {
		for j := range 3 {
			mustDo(t, node, "42", room.Join{User: fmt.Sprint("user", i, j), Session: "s"})
		}
	}
	redistest.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	before := c.Node()
	until := rdb.ZScore(t.Context(), unprefixed.Nodes(""), before).Val()
	for i, node := range []*Coordinator{c, other} {
		expectRefused(t, "join", node, "42", room.Join{User: "late", Session: "s"}, room.ErrUnavailable)
		for j := range 2 {
			mustDo(t, node, "42", room.Leave{User: fmt.Sprint("user", i, j), Session: "s"})
		}
		expectRefused(t, "join of a new room", node, "new", room.Join{User: "late", Session: "s"}, room.ErrUnavailable)
	}
	expectRoom(t, mustRead(t, c, "42"), "user0 2@2 user1 2@5", 0)
	if left := rdb.Keys(t.Context(), "LockRoom:*").Val(); slices.ContainsFunc(left, func(key string) bool { return !strings.HasSuffix(key, ":Fence") }) {
		t.Errorf("%v are left", left)
	}
	awaitUntil(t, patience, func() string {
		switch {
		case rdb.Exists(t.Context(), unprefixed.Lease(before)).Val() == 0:
			t.Fatal("the lease is over")
		case rdb.ZScore(t.Context(), unprefixed.Nodes(""), before).Val() == until:
			return "the lease is not prolonged"
		}
		return ""
	})
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	mustDo(t, c, "42", room.Join{User: "late", Session: "s"})
}
