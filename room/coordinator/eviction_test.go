package coordinator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// die stops a coordinator as a crash does: it does not prolong its lease any more, and gives
// nothing back.
func die(c *Coordinator) {
	c.lifetime.shut()
	c.membership.loops.Wait()
	c.membership.lease.mu.Lock()
	c.membership.lease.until = time.Time{} // as if it had never had one, for the Close of the test
	c.membership.lease.mu.Unlock()
}

// noOtherNodes checks that Redis knows of no nodes but those that are alive.
func noOtherNodes(t *testing.T, rdb *redis.Client, live ...*Coordinator) {
	t.Helper()
	alive := make(map[string]bool)
	for _, c := range live {
		alive[c.Node()] = true
	}
	for _, key := range rdb.Keys(t.Context(), "Node:*").Val() {
		if node := strings.Split(key, ":")[1]; !alive[node] {
			t.Errorf("%s is left", key)
		}
	}
	for _, node := range rdb.ZRange(t.Context(), nodesKey, 0, -1).Val() {
		if !alive[node] {
			t.Errorf("%s is still known", node)
		}
	}
	for _, key := range rdb.Keys(t.Context(), "Room:*:Meta").Val() {
		for field := range rdb.HGetAll(t.Context(), key).Val() {
			if node, by := strings.CutPrefix(field, "by:"); by && !alive[node] {
				t.Errorf("%s remembers %s", key, node)
			}
		}
	}
}

// A node dies. Its members keep their seats for the grace; then they are removed exactly
// once, as one version of each room, although all other nodes notice at the same time.
func TestADeadNodesMembersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		dead := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "dead"})
		var live []*Coordinator
		for i := range 3 {
			c := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: fmt.Sprint("live", i)})
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			live = append(live, c)
		}
		for i := range 10 {
			id := fmt.Sprint("room", i)
			mustDo(t, dead, id, room.Join("a", "s"))
			mustDo(t, dead, id, room.Join("b", "s"))
			mustDo(t, live[0], id, room.Join("c", "s"))
		}
		mustDo(t, live[1], "room3", room.Join("a", "came back")) // within the grace
		var events []*room.Event
		stop, err := live[2].Watch(t.Context(), "room0", func(e *room.Event) { events = append(events, e) })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		die(dead)
		time.Sleep(DefaultGrace)
		if s, _ := live[0].Read(t.Context(), "room0"); s.Version != 3 || s.Count() != 3 {
			t.Errorf("within the grace: %s", describeUsers(s.Users()))
		}
		time.Sleep(2 * DefaultNodeTTL)
		for i := range 10 {
			want, version := "c@2", uint64(4)
			if i == 3 {
				want, version = "a@0 c@2", 5
			}
			if s, _ := live[0].Read(t.Context(), fmt.Sprint("room", i)); describeUsers(s.Users()) != want || s.Version != version {
				t.Errorf("room%d: %s at version %d", i, describeUsers(s.Users()), s.Version)
			}
		}
		if len(events) != 1 || describeChanges(events[0].Changes) != "-a@0 -b@1" {
			t.Errorf("%d events, the first: %+v", len(events), events)
		}
		noOtherNodes(t, rdb, live...)
	})
}

// A node dies while it removes the members of a dead one: another node goes on.
func TestTheRemoverDiesHalfway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		dead := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "dead"})
		for i := range 10 {
			mustDo(t, dead, fmt.Sprint("room", i), room.Join("a", "s"))
		}
		die(dead)
		failing := redistest.MiniClient(t, mini)
		var commits atomic.Int32
		failing.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, commitScript) {
				commits.Add(1)
			}
			if commits.Load() > 4 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		warm(t, failing)
		first := newCoordinator(t, failing, Options{Node: "first"})
		if err := first.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
		left := 0
		for i := range 10 {
			s, _ := dead.Read(t.Context(), fmt.Sprint("room", i))
			left += s.Count()
		}
		if left == 0 || left == 10 {
			t.Fatalf("%d are left", left)
		}
		die(first)
		second := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "second"})
		if err := second.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		for i := range 10 {
			if s, _ := second.Read(t.Context(), fmt.Sprint("room", i)); s.Count() != 0 || s.Version != 2 {
				t.Errorf("room%d: %d members at version %d", i, s.Count(), s.Version)
			}
		}
		noOtherNodes(t, rdb, second)
	})
}

// One room cannot be read, and another one is locked. The dead node's members are removed
// from all other rooms meanwhile, and from those two when that is over.
func TestARoomThatFailsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		dead := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			mustDo(t, dead, fmt.Sprint("room", i), room.Join("a", "s"))
		}
		die(dead)
		rdb.Set(t.Context(), "LockRoom:room0", "somebody", time.Hour)
		rdb.HSet(t.Context(), "Room:room7:Users", "b", `{"seat":`)
		time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
		if left := rdb.SMembers(t.Context(), nodeRoomsKey(dead.Node())).Val(); !slices.Equal(left, []string{"room0", "room7"}) {
			t.Errorf("it may have members in %v", left)
		}
		rdb.Del(t.Context(), "LockRoom:room0")
		rdb.HDel(t.Context(), "Room:room7:Users", "b")
		time.Sleep(DefaultLockWait + DefaultNodeTTL)
		for i := range 20 {
			id := fmt.Sprint("room", i)
			if s, err := other.Read(t.Context(), id); err != nil || s.Count() != 0 || s.Version != 2 {
				t.Errorf("%s holds %s at version %d, %v", id, describeUsers(s.Users()), s.Version, err)
			}
		}
		noOtherNodes(t, rdb, other)
	})
}

// However many rooms and nodes there were, nothing of them remains in Redis.
func TestNothingGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		opts := Options{NodeTTL: time.Minute, Idle: 10 * time.Minute, MaxCopies: 20 * emptyCopySize}
		watcher := newCoordinator(t, rdb, opts)
		mustDo(t, watcher, "permanent", room.Join("z", "s"))
		for life := range 40 {
			c := newCoordinator(t, redistest.MiniClient(t, mini), opts)
			for i := range 60 {
				id := fmt.Sprint("room", life*20+i)
				mustDo(t, c, id, room.Join("a", "s"))
				if i%3 > 0 {
					mustDo(t, c, id, room.Leave("a", "s"))
				}
			}
			mustDo(t, c, "permanent", room.Join(fmt.Sprint("guest", life), "s"))
			if life%2 == 0 {
				die(c)
				_ = c.Close(t.Context())
			} else if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		noOtherNodes(t, rdb, watcher)
		left := rdb.Keys(t.Context(), "*").Val()
		for _, key := range left {
			if !strings.HasPrefix(key, "Room:permanent:") && !strings.HasPrefix(key, "Node") {
				t.Errorf("%s is left, TTL %v", key, rdb.PTTL(t.Context(), key).Val())
			}
		}
		if n := rdb.HLen(t.Context(), "Room:permanent:Meta").Val(); n > 6 {
			t.Errorf("Room:permanent:Meta has grown to %v", rdb.HGetAll(t.Context(), "Room:permanent:Meta").Val())
		}
	})
}

// A node is alive if its lease is there, although the list says that it is over.
func TestALivingNodeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		mustDo(t, c, "42", room.Join("a", "s"))
		rdb.ZAdd(t.Context(), nodesKey, redis.Z{Score: 1, Member: c.Node()})
		if _, err := other.membership.eviction.once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, _ := c.Read(t.Context(), "42"); s.Count() != 1 {
			t.Errorf("the room holds %d", s.Count())
		}
	})
}

// A node deletes its records of rooms that it does not use any more.
func TestALongLifeLeavesNoTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := newCoordinator(t, rdb, Options{MaxCopies: 20 * emptyCopySize})
		for i := range 50 {
			mustDo(t, c, fmt.Sprint("room", i), room.Join("a", "s"))
			if i > 2 {
				mustDo(t, c, fmt.Sprint("room", i), room.Leave("a", "s"))
			}
		}
		time.Sleep(2 * copyIdle)
		if rooms := rdb.SMembers(t.Context(), nodeRoomsKey(c.Node())).Val(); len(rooms) != 3 {
			t.Errorf("it is remembered in %v", rooms)
		}
	})
}
