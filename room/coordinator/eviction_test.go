package coordinator

import (
	"context"
	"errors"
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
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/store"
)

// die stops a coordinator as a crash does: it does not prolong its lease any more, and gives
// nothing back.
func die(c *Coordinator) {
	c.life.shut()
	c.node.Vanish()
}

// noOtherNodes checks that Redis knows of no nodes but those that are alive, and which leases were ended.
func noOtherNodes(t *testing.T, rdb *redis.Client, live ...*Coordinator) {
	t.Helper()
	alive := make(map[string]bool)
	for _, c := range live {
		alive[c.Node()] = true
	}
	for _, key := range rdb.Keys(t.Context(), "Node:*").Val() {
		if node := strings.Split(key, ":")[1]; !alive[node] && key != unprefixed.Over(node) {
			t.Errorf("%s is left", key)
		}
	}
	for _, node := range rdb.ZRange(t.Context(), unprefixed.Nodes(""), 0, -1).Val() {
		redistest.ErrorIf(t, !alive[node], "%s is still known", node)
	}
	for _, key := range rdb.Keys(t.Context(), "Room:*:Meta").Val() {
		for field := range rdb.HGetAll(t.Context(), key).Val() {
			if node, by := strings.CutPrefix(field, "by:"); by && !alive[node] {
				t.Errorf("%s remembers %s", key, node)
			}
		}
	}
}

// Redis comes back from an older copy just when a dead node's members have been removed, and the node is removed
// from the list of nodes that may have members. It stays listed while the copy has rooms or a lease of it, and so
// does the record that it stopped. In the end both are gone.
func TestEviction_CopyAtTheLastMoment(t *testing.T) {
	for what, copied := range map[string]func(context.Context, *redis.Client) error{
		"rooms": func(ctx context.Context, rdb *redis.Client) error {
			return rdb.SAdd(ctx, unprefixed.NodeRooms("dead"), "42").Err()
		},
		"a lease": func(ctx context.Context, rdb *redis.Client) error {
			return rdb.Set(ctx, unprefixed.Lease("dead"), "7 2000 2000 ", time.Minute).Err()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			mini, rdb := redistest.Mini(t)
			warmAll(t, rdb)
			dead := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "dead"})
			client := redistest.MiniClient(t, mini)
			live := newCoordinator(t, client, Options{Node: "live"})
			mustDo(t, dead, "42", room.Join{User: "a", Session: "s"})
			redistest.OK(t, live.Start(t.Context()))
			stays := make(chan bool, 1)
			client.AddHook(redistest.Hook{
				Before: once(cluster.UnlistScript, func() error {
					return errors.Join(copied(t.Context(), rdb), rdb.Set(t.Context(), unprefixed.Stopped("dead"), "", time.Hour).Err())
				}),
				After: once(cluster.UnlistScript, func() error {
					redistest.ErrorIf(t, rdb.Exists(t.Context(), unprefixed.Stopped("dead")).Val() != 1,
						"with %s it is not known any more that it had stopped", what)
					stays <- rdb.ZScore(t.Context(), unprefixed.Nodes(""), "dead").Err() == nil
					return nil
				}),
			})
			die(dead)
			redistest.ErrorIf(t, !redistest.Receive(t, stays, "the end of the dead node"),
				"with %s it is not listed any more", what)
			time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
			noOtherNodes(t, rdb, live)
		})
	}
}

// A node dies. When its TTL is over its members are away, and keep their seats for the grace; then
// they are removed. Both happen exactly once, as one version of each room, although all other nodes
// notice at the same time. Who has come back through another node is neither.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		dead := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "dead"})
		var live []*Coordinator
		for i := range 3 {
			c := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: fmt.Sprint("live", i)})
			redistest.OK(t, c.Start(t.Context()))
			live = append(live, c)
		}
		for i := range 10 {
			id := fmt.Sprint("room", i)
			mustDo(t, dead, id, room.Join{User: "a", Session: "s"})
			mustDo(t, dead, id, room.Join{User: "b", Session: "s"})
			mustDo(t, live[0], id, room.Join{User: "c", Session: "s"})
		}
		mustDo(t, live[1], "room3", room.Join{User: "a", Session: "came back"}) // within the grace
		var events []*room.Event
		stop, err := live[2].Watch(t.Context(), "room0", func(e *room.Event) { events = append(events, e) })
		redistest.OK(t, err)
		defer stop()
		die(dead)
		time.Sleep(DefaultNodeTTL / 2)
		s, _ := live[0].Read(t.Context(), "room0")
		redistest.ErrorIf(t, s.Version != 3, "before the TTL is over: %+v", s.Users())
		time.Sleep(2 * DefaultNodeTTL)
		for id, want := range map[string]string{"room0": "[{a 0 true false } {b 1 true false } {c 2 false false }]", "room3": "[{a 0 false false } {b 1 true false } {c 2 false false }]"} {
			s, _ := live[0].Read(t.Context(), id)
			redistest.ErrorIf(t, fmt.Sprint(s.Users()) != want, "within the grace %s holds %+v", id, s.Users())
		}
		mustDo(t, live[1], "room7", room.Join{User: "b", Session: "came back"})
		time.Sleep(DefaultGrace + DefaultNodeTTL)
		for i := range 10 {
			want, version := "c@2", uint64(5)
			if i == 3 {
				want, version = "a@0 c@2", 6
			} else if i == 7 {
				want, version = "b@1 c@2", 6
			}
			expectRoom(t, mustRead(t, live[0], fmt.Sprint("room", i)), want, version)
		}
		if len(events) != 2 || fmt.Sprint(events[0].Changes) != "[{away a 0  false <nil>} {away b 1  false <nil>}]" || describeChanges(events[1].Changes) != "-a@0 -b@1" {
			t.Errorf("%d events: %+v", len(events), events)
		}
		noOtherNodes(t, rdb, live...)
	})
}

// One room cannot be read, and another one is locked. The dead node's members are removed
// from all other rooms meanwhile, and from those two when that is over.
func TestEviction_OneRoomFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		dead := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		redistest.OK(t, other.Start(t.Context()))
		for i := range 20 {
			mustDo(t, dead, fmt.Sprint("room", i), room.Join{User: "a", Session: "s"})
		}
		die(dead)
		rdb.Set(t.Context(), "LockRoom:room0", "somebody", time.Hour)
		rdb.HSet(t.Context(), "Room:room7:Users", "b", `{"seat":`)
		time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
		left := rdb.SMembers(t.Context(), unprefixed.NodeRooms(dead.Node())).Val()
		redistest.ErrorIf(t, !slices.Equal(left, []string{"room0", "room7"}), "it may have members in %v", left)
		rdb.Del(t.Context(), "LockRoom:room0")
		rdb.HDel(t.Context(), "Room:room7:Users", "b")
		time.Sleep(DefaultLockWait + DefaultNodeTTL)
		for i := range 20 {
			id := fmt.Sprint("room", i)
			if s, err := other.Read(t.Context(), id); err != nil || s.Count() != 0 || s.Version != 3 && id != "room0" && id != "room7" {
				t.Errorf("%s holds %s at version %d, %v", id, describeUsers(s.Users()), s.Version, err)
			}
		}
		noOtherNodes(t, rdb, other)
	})
}

// However many rooms and nodes there were, nothing of them remains in Redis.
func TestRedis_NothingGrows(t *testing.T) {
	t.Parallel()
	t.Run("few nodes", func(t *testing.T) { testNothingGrows(t, 10, 40) })
	t.Run("many nodes", func(t *testing.T) {
		redistest.Thorough(t)
		testNothingGrows(t, 40, 60)
	})
}

func testNothingGrows(t *testing.T, lives, rooms int) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		opts := Options{NodeTTL: time.Minute, Idle: 10 * time.Minute, MaxCopies: 20 * emptyCopySize}
		watcher := newCoordinator(t, rdb, opts)
		mustDo(t, watcher, "permanent", room.Join{User: "z", Session: "s"})
		for life := range lives {
			c := newCoordinator(t, redistest.MiniClient(t, mini), opts)
			for i := range rooms {
				id := fmt.Sprint("room", life*20+i)
				mustDo(t, c, id, room.Join{User: "a", Session: "s"})
				if i%3 > 0 {
					mustDo(t, c, id, room.Leave{User: "a", Session: "s"})
				}
			}
			mustDo(t, c, "permanent", room.Join{User: fmt.Sprint("guest", life), Session: "s"})
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
			redistest.ErrorIf(t, !strings.HasPrefix(key, "Room:permanent:") && !strings.HasPrefix(key, "Node"),
				"%s is left, TTL %v", key, rdb.PTTL(t.Context(), key).Val())
		}
		if n := rdb.HLen(t.Context(), "Room:permanent:Meta").Val(); n > 7 {
			t.Errorf("Room:permanent:Meta has grown to %v", rdb.HGetAll(t.Context(), "Room:permanent:Meta").Val())
		}
	})
}

// A node deletes its records of rooms that it does not use any more.
func TestRegistration_LongLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{MaxCopies: 20 * emptyCopySize})
		for i := range 50 {
			mustDo(t, c, fmt.Sprint("room", i), room.Join{User: "a", Session: "s"})
			if i > 2 {
				mustDo(t, c, fmt.Sprint("room", i), room.Leave{User: "a", Session: "s"})
			}
		}
		time.Sleep(2 * copyIdle)
		rooms := rdb.SMembers(t.Context(), unprefixed.NodeRooms(c.Node())).Val()
		redistest.ErrorIf(t, len(rooms) != 3, "it is remembered in %v", rooms)
	})
}

// Redis, or one of its masters, takes no writes for a while, and answers reads. However long that lasts, no connected player
// loses the seat: nodes judge others, and their own names from before, only when all had time to prolong. After an outage that
// no node can miss nobody is shown as away, and who was away before has the grace again. Where another master has the lease of the
// node that judges, who could not be shown as away meanwhile has the grace after that; and if it could not read the leases,
// all had time to prolong theirs, and who was away before leaves without another grace.
func TestEviction_WritesRefused(t *testing.T) {
	for refused := 4 * time.Second; refused < 16*time.Second; refused += 300 * time.Millisecond {
		for _, judge := range []string{"refused, too", "writes its lease", "writes its lease, and reads no others"} {
			testWritesRefused(t, refused, judge)
		}
	}
}

// testWritesRefused has Redis refuse writes for so long. judge is what the second node can do.
func testWritesRefused(t *testing.T, refused time.Duration, judge string) {
	const nodeTTL = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		var refuses atomic.Bool
		join := func(c *Coordinator, user string) { mustDo(t, c, "42", room.Join{User: user, Session: "s"}) }
		noticed, later := refused > 3*nodeTTL/2, time.Duration(0) // until a session joins again
		if noticed {
			later = 2 * time.Second
		}
		all := judge == "refused, too"
		blind := judge == "writes its lease, and reads no others"
		wrong := func(c room.Change) bool {
			return c.Type == room.KindLeave && (noticed && all || c.User != "away") ||
				c.Type == "away" && noticed && (all || blind) && c.User != "away"
		}
		var nodes []*Coordinator
		for i, user := range []string{"a", "b", "away"} {
			client := redistest.MiniClient(t, mini)
			client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
				here := strings.HasPrefix(cmd.Name(), "eval")
				if i == 1 && !all {
					here = isScript(cmd, store.CommitScript) || isScript(cmd, cluster.OverScript) || blind && cmd.Name() == "zrange"
				}
				if refuses.Load() && here {
					return errors.New("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk")
				}
				return nil
			}})
			c := newCoordinator(t, client, Options{NodeTTL: nodeTTL, Grace: 3 * time.Second})
			nodes = append(nodes, c)
			join(c, user)
			stop, err := c.Watch(t.Context(), "42", func(e *room.Event) {
				if e.Rejoin {
					time.AfterFunc(later, func() { join(c, user) })
				}
				if i := slices.IndexFunc(e.Changes, wrong); i >= 0 {
					t.Errorf("writes were refused for %v, the judge %s: %+v", refused, judge, e.Changes[i])
				}
			})
			redistest.OK(t, err)
			defer stop()
			time.Sleep(time.Second)
		}
		die(nodes[2])
		time.Sleep(nodeTTL + time.Second)
		refuses.Store(true)
		time.Sleep(refused)
		refuses.Store(false)
		time.Sleep(nodeTTL + 2*time.Second)
		left := !rdb.HExists(t.Context(), "Room:42:Users", "away").Val()
		redistest.ErrorIf(t, blind && !left, "after %v without reads, the judge begins the grace again", refused)
		join(nodes[0], "away")
		time.Sleep(30 * time.Second)
		if users := rdb.HKeys(t.Context(), "Room:42:Users").Val(); len(users) != 3 {
			t.Errorf("after %v without writes, the judge %s, %v are in the room", refused, judge, users)
		}
	})
}

// Under Reject a session stays only as long as its node is believed to be alive: when the
// node was killed, or closed, its lease is over, and the user's next session has the seat.
func TestDo_RejectSparesNoDeadSession(t *testing.T) {
	for name, end := range map[string]struct {
		by   func(*Coordinator)
		dead time.Duration // until its lease is over
	}{
		"killed": {die, DefaultNodeTTL},
		"closed": {func(c *Coordinator) { _ = c.Close(context.Background()) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, _ := redistest.Mini(t)
				rules := room.Rules{Duplicate: room.Reject, Seating: room.Capacity(2)}
				gone := newCoordinator(t, redistest.MiniClient(t, mini), Options{Rules: rules})
				c := newCoordinator(t, redistest.MiniClient(t, mini), Options{Rules: rules})
				mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
				first := mustDo(t, gone, "42", room.Join{User: "a", Session: "old"})
				expectRefused(t, "while its node lives", c, "42", room.Join{User: "a", Session: "new"}, room.ErrDuplicate)
				end.by(gone)
				if end.dead > 0 {
					expectRefused(t, "before its lease is over", c, "42", room.Join{User: "a", Session: "new"}, room.ErrDuplicate)
					time.Sleep(end.dead)
				}
				expectRefused(t, "a session that comes back unasked", c, "42", room.Join{User: "a", Session: "older", Mode: room.JoinAgain}, room.ErrDuplicate)
				r := mustDo(t, c, "42", room.Join{User: "a", Session: "new"})
				redistest.ErrorIf(t, r.Seat != first.Seat, "on seat %d instead of %d", r.Seat, first.Seat)
				time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
				expectRoom(t, mustRead(t, c, "42"), "b@0 a@1", 0)
			})
		})
	}
}

// A node dies while it shows the members of a dead one as away, or removes them: another node goes on.
func TestEviction_RemoverDies(t *testing.T) {
	t.Run("away", func(t *testing.T) { testTheRemoverDies(t, 4) })
	t.Run("leave", func(t *testing.T) { testTheRemoverDies(t, 14) })
}

// testTheRemoverDies lets a node die that has done something about so many of 20.
func testTheRemoverDies(t *testing.T, done int32) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		dead := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "dead"})
		for i := range 10 {
			mustDo(t, dead, fmt.Sprint("room", i), room.Join{User: "a", Session: "s"})
		}
		die(dead)
		failing := redistest.MiniClient(t, mini)
		var commits atomic.Int32
		failing.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, store.CommitScript) {
				commits.Add(1)
			}
			if commits.Load() > done {
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		warm(t, failing)
		first := newCoordinator(t, failing, Options{Node: "first"})
		redistest.OK(t, first.Start(t.Context()))
		time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
		left := int32(20)
		for i := range 10 {
			s, _ := dead.Read(t.Context(), fmt.Sprint("room", i))
			left -= int32(s.Version - 1)
		}
		redistest.FatalIf(t, left == 0 || left == 20 || left%10 == 0, "%d are left", left)
		die(first)
		second := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "second"})
		redistest.OK(t, second.Start(t.Context()))
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		for i := range 10 {
			if s, _ := second.Read(t.Context(), fmt.Sprint("room", i)); s.Count() != 0 || s.Version != 3 {
				t.Errorf("room%d: %d members at version %d", i, s.Count(), s.Version)
			}
		}
		noOtherNodes(t, rdb, second)
	})
}

// A node is alive if its lease is there, although the list says that it is over.
func TestEviction_LivingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		rdb.ZAdd(t.Context(), unprefixed.Nodes(""), redis.Z{Score: 1, Member: c.Node()})
		redistest.OK(t, other.Start(t.Context()))
		time.Sleep(time.Minute)
		s, _ := c.Read(t.Context(), "42")
		redistest.ErrorIf(t, s.Count() != 1, "the room holds %d", s.Count())
	})
}
