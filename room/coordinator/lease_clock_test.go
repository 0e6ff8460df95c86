package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/store"
)

// twoNodes returns a node with a member in room 42, and one that watches the node's lease.
func twoNodes(t *testing.T, mini *embedded.Redis, first, other Options) (c, watches *Coordinator) {
	t.Helper()
	c, watches = newCoordinator(t, redistest.MiniClient(t, mini), first), newCoordinator(t, redistest.MiniClient(t, mini), other)
	redistest.OK(t, watches.Start(t.Context()))
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	time.Sleep(DefaultNodeTTL) // it was seen
	return c, watches
}

// count returns how many members room 42 has.
func count(t *testing.T, c *Coordinator) int {
	t.Helper()
	s := mustRead(t, c, "42")
	return s.Count()
}

// Redis' clock is set an hour ahead: every lease is over at once, and by the list since long.
// The nodes notice in time, and nobody loses a seat.
func TestLease_ClockStepsForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c, watches := twoNodes(t, mini, Options{Node: "was"}, Options{})
		f, _ := follow(t, c, "42")
		for _, node := range []string{c.Node(), watches.Node()} {
			rdb.Del(t.Context(), unprefixed.Lease(node))
			rdb.ZAdd(t.Context(), unprefixed.Nodes(""), redis.Z{Score: 1, Member: node})
		}
		time.Sleep(DefaultNodeTTL)
		if n := count(t, watches); n != 1 {
			t.Fatal("the member of a node that lives was removed")
		}
		if e := redistest.Receive(t, f.events, "a new name"); !e.Rejoin || c.Node() == "was" {
			t.Errorf("its node's name is %s, and its watchers were told %+v", c.Node(), e)
		}
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		redistest.Equal(t, "the member of a node that lives was removed later:", count(t, watches), 1)
		noOtherNodes(t, rdb, c, watches)
	})
}

// Redis' clock is set an hour back, and then a node dies: its lease stays in Redis for that
// hour. Its members are removed in time all the same.
func TestLease_ClockStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c, watches := twoNodes(t, mini, Options{}, Options{})
		die(c)
		rdb.PExpire(t.Context(), unprefixed.Lease(c.Node()), time.Hour)
		rdb.ZAdd(t.Context(), unprefixed.Nodes(""), redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: c.Node()})
		time.Sleep(DefaultGrace - time.Second)
		redistest.Equal(t, "the member was removed within the grace:", count(t, watches), 1)
		time.Sleep(2 * DefaultNodeTTL)
		redistest.Equal(t, "the dead node's member is still there:", count(t, watches), 0)
		noOtherNodes(t, rdb, watches)
	})
}

// Nodes differ in their settings. A lease lasts as long as its node says, and its members
// keep their seats for its grace.
func TestLease_SettingsDiffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c, watches := twoNodes(t, mini, Options{NodeTTL: time.Minute, Grace: time.Minute}, Options{NodeTTL: 4 * time.Second, Grace: -1})
		time.Sleep(10 * time.Minute)
		if n := count(t, watches); n != 1 {
			t.Fatal("the member of a node that lives was removed")
		}
		die(c)
		time.Sleep(time.Minute + 30*time.Second)
		redistest.Equal(t, "the member was removed within its node's grace:", count(t, watches), 1)
		time.Sleep(time.Minute)
		redistest.Equal(t, "the dead node's member is still there:", count(t, watches), 0)
		noOtherNodes(t, rdb, watches)
	})
}

// All nodes were away for longer than the grace. A user who comes back to the first one that
// starts still has the seat.
func TestLease_GraceBeginsWhenSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		die(c)
		time.Sleep(time.Hour)
		next := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		redistest.OK(t, next.Start(t.Context()))
		time.Sleep(DefaultGrace / 2)
		r := mustDo(t, next, "42", room.Join{User: "b", Session: "back"})
		redistest.ErrorIf(t, r.Seat != 1 || r.Count() != 2, "%+v", r)
		time.Sleep(DefaultNodeTTL/2 + DefaultGrace)
		expectRoom(t, mustRead(t, next, "42"), "b@1", 0)
		noOtherNodes(t, rdb, next)
	})
}

// The same with a real server that is killed and has its last snapshot on disk. Members are
// in again, under their node's new name; a user who has left since the snapshot is removed;
// and no version means two things.
func TestLease_RestartFromASnapshot(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	rdb := server.Client()
	opts := Options{LockTTL: 500 * time.Millisecond, NodeTTL: 3 * time.Second, Grace: time.Second}
	c := newCoordinator(t, server.Client(), opts)
	other := newCoordinator(t, server.Client(), opts)
	sitDown(t, c, "42", "stays")
	mustDo(t, c, "42", room.Join{User: "leaves", Session: "s"})
	redistest.OK(t, other.Start(t.Context()))
	redistest.OK(t, rdb.Save(t.Context()).Err())
	before, lease := c.Node(), rdb.Get(t.Context(), unprefixed.Lease(c.Node())).Val()
	mustDo(t, c, "42", room.Leave{User: "leaves", Session: "s"})
	sitDown(t, c, "42", "comes")
	last := mustDo(t, c, "42", room.Join{User: "more", Session: "s"})
	mustDo(t, c, "42", room.Leave{User: "more", Session: "s"})
	awaitUntil(t, patience, func() string {
		if rdb.Get(t.Context(), unprefixed.Lease(before)).Val() != lease {
			return ""
		}
		return "the lease is not prolonged"
	})
	server.Kill()
	server.Restart()
	awaitUntil(t, patience, func() string {
		s, err := other.Read(t.Context(), "42")
		switch users := s.Users(); {
		case err != nil:
			return err.Error()
		case c.Node() == before:
			return "the node has its old name"
		case len(users) != 2 || !has(s.Users(), "stays") || !has(s.Users(), "comes"):
			return "the room holds " + describeUsers(s.Users())
		case s.Epoch == last.Epoch:
			return "it is the old epoch"
		}
		for user, text := range rdb.HGetAll(t.Context(), "Room:42:Users").Val() {
			if m, _ := store.ParseMember(text); m.Node != c.Node() {
				return user + " is a member of " + m.Node
			}
		}
		return ""
	})
}

// Redis comes back with a copy of its data that is younger than the lease's last beat. It
// holds a member who has left since, under a name that is alive. No session answers for
// that member, who is removed.
func TestLease_ForgottenLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		c.AnswerFor(func(id, session string) bool { return id == "42" && session == "of a" })
		watches := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "of a"})
		mustDo(t, c, "42", room.Join{User: "b", Session: "of b"})
		f, _ := follow(t, c, "42")
		mustDo(t, c, "42", room.Join{User: "x", Session: "of x"})
		f.expect(t, "3<2 +x@2")
		mustDo(t, c, "42", room.Leave{User: "x", Session: "of x"})
		f.expect(t, "4<3 -x@2")
		users, meta := rdb.HGetAll(t.Context(), "Room:42:Users").Val(), rdb.HGetAll(t.Context(), "Room:42:Meta").Val()
		mustDo(t, c, "42", room.Leave{User: "b", Session: "of b"})
		f.expect(t, "5<4 -b@1")
		rdb.HSet(t.Context(), "Room:42:Users", users)
		rdb.HSet(t.Context(), "Room:42:Meta", meta)
		mustDo(t, watches, "42", room.Join{User: "e", Session: "s"}) // its version is that of the leave
		time.Sleep(time.Second)
		expectRoom(t, mustRead(t, watches, "42"), "a@0 e@2", 0)
	})
}

// The request that began a lease arrives once more when the lease was ended. Others rely on that: the name does
// not live again.
func TestLease_LateBeginning(t *testing.T) {
	const gone = 2*DefaultNodeTTL + DefaultGrace
	for name, test := range map[string]struct {
		end   func(*Coordinator)
		after time.Duration
	}{"by others": {die, gone}, "by the node": {stop, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				warmAll(t, rdb)
				client := redistest.MiniClient(t, mini)
				ended := newCoordinator(t, client, Options{Node: "ended"})
				other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
				redistest.OK(t, other.Start(t.Context()))
				begins := keepBack(client, rdb, cluster.LeaseScript, "")
				redistest.ErrorIs(t, "it starts without a lease", ended.Start(t.Context()), room.ErrUnavailable)
				begins.pass()
				mustDo(t, ended, "42", room.Join{User: "a", Session: "s"})
				test.end(ended)
				time.Sleep(test.after)
				begins.arrive(t)
				redistest.ErrorIf(t, rdb.Exists(t.Context(), unprefixed.Lease("ended")).Val() != 0, "it lives again")
				time.Sleep(gone)
				noOtherNodes(t, rdb, other)
				if s, err := other.Read(t.Context(), "42"); err != nil || s.Count() != 0 {
					t.Errorf("the room holds %s, %v", describeUsers(s.Users()), err)
				}
			})
		})
	}
}

// The reply to the request that began a node's first lease was lost, and others have ended that lease since. The
// node takes another name.
func TestLease_FirstWasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		warmAll(t, rdb)
		client := redistest.MiniClient(t, mini)
		c := newCoordinator(t, client, Options{Node: "first"})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		redistest.OK(t, other.Start(t.Context()))
		begins := keepBack(client, rdb, cluster.LeaseScript, "")
		redistest.ErrorIs(t, "it starts without a reply", c.Start(t.Context()), room.ErrUnavailable)
		begins.arrive(t)
		time.Sleep(2*DefaultNodeTTL + DefaultGrace)
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		redistest.ErrorIf(t, c.Node() == "first", "it has a name that was ended")
		noOtherNodes(t, rdb, c, other)
	})
}

// Redis was restarted from an old copy of its data, which holds a lease that is not over and
// a member who has left since. The node takes a new name and its sessions join again; that
// member does not come back, since the node knows better.
func TestLease_ComesBackToLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c, watches := twoNodes(t, mini, Options{Node: "was"}, Options{})
		f, _ := follow(t, c, "42")
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		f.expect(t, "2<1 +b@1")
		users, meta := rdb.HGetAll(t.Context(), "Room:42:Users").Val(), rdb.HGetAll(t.Context(), "Room:42:Meta").Val()
		lease := rdb.Get(t.Context(), "Node:was").Val()
		time.Sleep(DefaultNodeTTL)
		mustDo(t, c, "42", room.Leave{User: "b", Session: "s"})
		f.expect(t, "3<2 -b@1")
		rdb.HSet(t.Context(), "Room:42:Users", users)
		rdb.HSet(t.Context(), "Room:42:Meta", meta)
		rdb.Set(t.Context(), "Node:was", lease, DefaultNodeTTL)
		// The other node knows nothing of the room, and does not count that lease as over yet.
		time.Sleep(DefaultNodeTTL / 2)
		redistest.FatalIf(t, c.Node() == "was", "it kept its name")
		e := redistest.Receive(t, f.events, "a new name")
		redistest.ErrorIf(t, !e.Rejoin, "its watchers were told %+v", e)
		mustDo(t, c, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
		e = redistest.Receive(t, f.events, "a snapshot")
		redistest.ErrorIf(t, e.Snapshot == nil || describeUsers(e.Snapshot.Users()) != "a@0",
			"its watchers were told %+v", e)
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		expectRoom(t, mustRead(t, watches, "42"), "a@0", 0)
		noOtherNodes(t, rdb, c, watches)
	})
}
