package coordinator

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/store"
)

// A node that was stalled until it was believed dead writes nothing under its old name. It
// takes a new one, and its sessions join again.
func TestLease_StalledNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		stalled := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "stalled"})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "other"})
		mustDo(t, stalled, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, other, "42", room.Join{User: "b", Session: "s"})
		rejoin := make(chan *room.Event, 9)
		stop, err := stalled.Watch(t.Context(), "42", func(e *room.Event) {
			if e.Rejoin {
				rejoin <- e
			}
		})
		redistest.OK(t, err)
		defer stop()
		// Its loops stop, as all of it would under SIGSTOP.
		stalled.life.shut()
		stalled.node.Wait()
		time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
		expectRoom(t, mustRead(t, other, "42"), "b@1", 0)
		mustDo(t, stalled, "42", room.Join{User: "c", Session: "s", Seat: new(2)})
		redistest.ErrorIf(t, stalled.Node() == "stalled", "it kept its name")
		redistest.Receive(t, rejoin, "being told to join again")
		mustDo(t, stalled, "42", room.Join{User: "a", Session: "s", Seat: new(0)})
		for user, text := range rdb.HGetAll(t.Context(), "Room:42:Users").Val() {
			m, _ := store.ParseMember(text)
			redistest.ErrorIf(t, user != "b" && m.Node != stalled.Node(), "%s is a member of %s", user, m.Node)
		}
		noOtherNodes(t, rdb, stalled, other)
	})
}

// A node whose lease is over writes nothing, and is not ready, until it has one again.
func TestLease_NoneNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		away := true
		var mu sync.Mutex
		rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			mu.Lock()
			defer mu.Unlock()
			if away && isScript(cmd, cluster.LeaseScript) {
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		time.Sleep(2 * DefaultNodeTTL)
		expectRefused(t, "without a lease", c, "42", room.Join{User: "b", Session: "s"}, room.ErrUnavailable)
		redistest.ErrorIs(t, "without a lease it is ready", c.Ready(t.Context()), room.ErrUnavailable)
		mu.Lock()
		away = false
		mu.Unlock()
		redistest.OK(t, c.Ready(t.Context()))
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
	})
}

// A lease lasts from when the node has asked for it, not from when Redis has answered: Redis counts from some time
// between.
func TestLease_CountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		begun := false
		rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, cluster.LeaseScript) && begun {
				return io.ErrUnexpectedEOF
			}
			return nil
		}, After: func(ctx context.Context, cmd redis.Cmder) error {
			if isScript(cmd, cluster.LeaseScript) && !begun {
				begun = true
				return pause.For(ctx, DefaultNodeTTL-time.Second)
			}
			return nil
		}})
		redistest.OK(t, cluster.LeaseScript.Load(t.Context(), rdb).Err())
		c := newCoordinator(t, rdb, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		time.Sleep(2 * time.Second)
		expectRefused(t, "when the lease is over", c, "42", room.Join{User: "b", Session: "s"}, room.ErrUnavailable)
	})
}

// A node prolongs its lease at the moment when another takes it for dead: the lease goes on.
func TestLease_ProlongedAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		warmAll(t, rdb)
		c, watches := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "alive"}), newCoordinator(t, client, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		redistest.OK(t, watches.Start(t.Context()))
		c.life.shut() // its loops stop
		c.node.Wait()
		judged := make(chan int64, 1)
		client.AddHook(redistest.Hook{
			Before: once(cluster.OverScript, func() error { return c.node.Prolong(t.Context()) }),
			After: once(cluster.OverScript, func() error {
				judged <- rdb.Exists(t.Context(), unprefixed.Lease("alive")).Val()
				return nil
			}),
		})
		rdb.Persist(t.Context(), unprefixed.Lease("alive")) // Redis' clock was set back
		redistest.ErrorIf(t, redistest.Receive(t, judged, "being taken for dead") != 1 || c.Node() != "alive",
			"the lease of a node that lives was ended; its name is %s", c.Node())
	})
}

// A caller that gives up does not end the attempt that others wait for.
func TestLease_AttemptOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		var attempts atomic.Int32
		rdb.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if isScript(cmd, cluster.LeaseScript) {
				attempts.Add(1)
				_ = pause.For(ctx, time.Second) // Redis is slow
			}
			return ctx.Err()
		}})
		redistest.OK(t, cluster.LeaseScript.Load(t.Context(), rdb).Err())
		c := newCoordinator(t, rdb, Options{})
		hurried, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := c.Do(hurried, "42", room.Join{User: "a", Session: "s"})
		redistest.ErrorIf(t, !errors.Is(err, context.DeadlineExceeded), "who does not wait: %v", err)
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		redistest.Equal(t, "attempts:", attempts.Load(), 1)
	})
}

// A failover loses the record that the node may have members in a room, and keeps the
// members, which are on another master. The node records it again, so they are removed when
// it dies.
func TestLease_LostRoomIsRecordedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		redistest.OK(t, other.Start(t.Context()))
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "43", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "44", room.Join{User: "a", Session: "s"})
		rooms := unprefixed.NodeRooms(c.Node())
		rdb.SRem(t.Context(), rooms, "42", "43")
		time.Sleep(DefaultNodeTTL)
		recorded := rdb.SMembers(t.Context(), rooms).Val()
		redistest.ErrorIf(t, len(recorded) != 3, "it is recorded in %v", recorded)
		die(c)
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		for _, id := range []string{"42", "43", "44"} {
			s, _ := other.Read(t.Context(), id)
			redistest.ErrorIf(t, s.Count() != 0, "room %s holds %s", id, describeUsers(s.Users()))
		}
		noOtherNodes(t, rdb, other)
	})
}

// The members of a node that is closed have the grace, and no more.
func TestLease_CloseBeginsTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		closed := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		redistest.OK(t, other.Start(t.Context()))
		mustDo(t, closed, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, closed, "42", room.Join{User: "b", Session: "s"})
		redistest.OK(t, closed.Close(t.Context()))
		mustDo(t, other, "42", room.Join{User: "b", Session: "elsewhere"})
		time.Sleep(DefaultGrace - time.Second)
		expectRoom(t, mustRead(t, other, "42"), "a@0 b@1", 3)
		time.Sleep(1 + DefaultNodeTTL)
		expectRoom(t, mustRead(t, other, "42"), "b@1", 0)
		noOtherNodes(t, rdb, other)
	})
}

// A coordinator that is closed takes no lease any more.
func TestLease_NoneAfterClose(t *testing.T) {
	c, rdb := onMini(t, Options{})
	redistest.OK(t, c.Start(t.Context()))
	redistest.OK(t, c.Close(t.Context()))
	redistest.ErrorIs(t, "start", c.Start(t.Context()), room.ErrClosed)
	noOtherNodes(t, rdb)
}

// A name is kept until its lease has been over for the grace: nobody is removed before that.
// If Redis has lost the lease too early, nobody can say, and the name is not kept.
func TestLease_KeptNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{Node: "first", NodeTTL: 5 * time.Second, Grace: 10 * time.Second})
		redistest.OK(t, c.Start(t.Context()))
		kept := func(want ...string) {
			t.Helper()
			got := slices.Sorted(slices.Values(c.node.KeptNames()))
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Errorf("kept are %v, want %v", got, want)
			}
		}
		time.Sleep(5 * time.Minute)
		kept("first")
		c.life.shut() // it is stopped
		c.node.Wait()
		time.Sleep(5 * time.Second)
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		second := c.Node()
		kept("first", second)
		time.Sleep(10 * time.Second)
		kept(second)
		mustDo(t, c, "43", room.Join{User: "a", Session: "s"})
		third := c.Node()
		rdb.Del(t.Context(), unprefixed.Lease(third))
		redistest.OK(t, c.node.Prolong(t.Context()))
		if fourth := c.Node(); third == second || fourth == third {
			t.Fatalf("the names are %s, %s, %s", second, third, fourth)
		}
		kept(second, c.Node())
	})
}
